package adapter_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/internal/lifeline"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// config is a store's Config.
type config struct {
	ttl, grace     time.Duration
	logger         *slog.Logger
	renewed        func(time.Duration)
	servers        []string
	user, password string
	passwordFunc   func(context.Context) (string, error)
	tls            *tls.Config
	dial           func(context.Context, string, string) (net.Conn, error)
	dialer         *adapter.Dialer
	lifeline       string
	secure         func() (*lifeline.Secure, error)
}

func (c *config) settings() adapter.Settings {
	return adapter.Settings{
		TTL: &c.ttl, Grace: &c.grace, Least: time.Second, Most: time.Hour, Unit: time.Second, Logger: &c.logger, Renewed: &c.renewed,
		Servers: &c.servers, Field: "servers", Port: "1", User: &c.user, Password: &c.password, PasswordFunc: &c.passwordFunc,
		TLS: &c.tls, Dial: &c.dial, Dialer: &c.dialer, Lifeline: &c.lifeline, Secure: &c.secure,
	}
}

func TestPasswordFunc(t *testing.T) {
	const secret = "hUnter2"
	returns := func(password string, err error) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { return password, err }
	}
	for name, c := range map[string]struct {
		config   config
		optional bool
		want     string // the password
		is       error  // of the function
		says     string
	}{
		"text":                 {config: config{password: secret}, want: secret},
		"a function":           {config: config{passwordFunc: returns(secret, nil)}, want: secret},
		"a failure":            {config: config{passwordFunc: returns(secret, errors.New("sealed"))}, is: adapter.ErrPassword, says: "service unavailable: there is no password: sealed"},
		"a permanent error":    {config: config{passwordFunc: returns("", store.ErrInvalid)}, is: adapter.ErrPassword, says: "service unavailable: there is no password: invalid"},
		"an empty one":         {config: config{passwordFunc: returns("", nil)}, is: adapter.ErrPassword, says: "service unavailable: there is no password: it is empty"},
		"an empty one will do": {config: config{passwordFunc: returns("", nil)}, optional: true},
		"a line break":         {config: config{passwordFunc: returns(secret+"\n", nil)}, is: adapter.ErrPassword, says: "service unavailable: there is no password: it has a line break or a zero byte in it"},
	} {
		config := c.config
		config.servers, config.user = []string{"h"}, "ann"
		s := config.settings()
		s.NoPassword = c.optional
		require.NoError(t, s.Complete(), name)
		password, err := config.passwordFunc(t.Context())
		require.Equal(t, c.want, password, name)
		require.Empty(t, config.password, "it is kept where it could be printed")
		require.NotContains(t, fmt.Sprintf("%+v", config), secret)
		require.Equal(t, c.is == nil, err == nil, name)
		if c.is != nil {
			require.ErrorIs(t, err, c.is)
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.False(t, store.Refused(err), name)
			require.EqualError(t, err, c.says)
		}
	}
	for name, refused := range map[string]config{
		"twice":   {user: "ann", password: secret, passwordFunc: returns(secret, nil)},
		"no user": {passwordFunc: returns(secret, nil)},
	} {
		refused.servers = []string{"h"}
		err := refused.settings().Complete()
		require.ErrorIs(t, err, store.ErrInvalid, name)
		require.NotContains(t, err.Error(), secret)
	}
}
