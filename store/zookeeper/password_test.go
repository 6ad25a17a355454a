package zookeeper

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// identities is a scripted server that accepts one password, and a driver whose function returns another one.
type identities struct {
	server *scriptedServer
	driver *driver

	mu       sync.Mutex
	accepts  string // guarded by mu, as are all below
	password string
	err      error
	seen     []string
}

func newIdentities(t *testing.T) *identities {
	i := &identities{server: &scriptedServer{ttl: scriptedTTL, trip: time.Millisecond}, accepts: "first", password: "first"}
	i.server.auth = func(_ int, identity string) bool {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.seen = append(i.seen, identity)
		return identity == "ann:"+i.accepts
	}
	var err error
	i.driver, err = newDriver(Config{
		Servers: []string{"127.0.0.1"}, TTL: scriptedTTL, User: "ann", Dial: i.server.dial,
		PasswordFunc: func(context.Context) (string, error) {
			i.mu.Lock()
			defer i.mu.Unlock()
			return i.password, i.err
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = i.driver.Close()
		time.Sleep(time.Second)
	})
	return i
}

func (i *identities) set(accepts, password string, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.accepts, i.password, i.err = accepts, password, err
}

// reconnect loses the connection.
func (i *identities) reconnect() {
	i.driver.mu.Lock()
	l := i.driver.link
	i.driver.mu.Unlock()
	l.wire.end(errors.New("lost"))
	time.Sleep(time.Second)
}

// dials returns how many connections there have been.
func (i *identities) dials() int {
	i.server.mu.Lock()
	defer i.server.mu.Unlock()
	return len(i.server.dials)
}

// kept reports whether the session has been confirmed within the last half second.
func (i *identities) kept(t *testing.T, s *session) {
	t.Helper()
	i.driver.mu.Lock()
	defer i.driver.mu.Unlock()
	require.Same(t, s, i.driver.current)
	require.Less(t, time.Since(s.proof.Sent.Time()), scriptedTTL/2, "the session is not confirmed")
}

// While there is no password, the connection confirms the session, and the caller is told why it has to wait.
func TestNoPasswordCostsNoSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIdentities(t)
		s := i.server.session(t, i.driver)
		i.set("second", "", errors.New("the vault is sealed"))
		i.reconnect()
		time.Sleep(5 * scriptedTTL)
		i.kept(t, s)
		_, err := i.driver.up(t.Context())
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.ErrorContains(t, err, "the vault is sealed")
		require.Equal(t, 2, i.dials(), "the connection was given up")
		i.set("second", "second", nil)
		require.Same(t, s, i.server.session(t, i.driver))
		i.mu.Lock()
		defer i.mu.Unlock()
		require.Equal(t, []string{"ann:first", "ann:second"}, i.seen)
	})
}

// A refused identity is tried again on the next connection, with the password of that moment.
func TestRefusedIdentityIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIdentities(t)
		s := i.server.session(t, i.driver)
		i.set("second", "first", nil)
		i.reconnect()
		_, err := i.driver.up(t.Context())
		require.ErrorIs(t, err, store.ErrDenied)
		time.Sleep(scriptedTTL / 3)
		i.set("second", "second", nil)
		time.Sleep(scriptedTTL / 3)
		i.kept(t, s)
		require.Same(t, s, i.server.session(t, i.driver))
		require.Less(t, i.dials(), 12)
	})
}

// An identity that is refused for a TTL costs the session, which each handshake has prolonged. The store goes on, with few
// connections, and works again as soon as the identity is accepted.
func TestIdentityIsRefusedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIdentities(t)
		s := i.server.session(t, i.driver)
		i.set("second", "first", nil)
		i.reconnect()
		time.Sleep(scriptedTTL / 2)
		select {
		case <-s.lost:
			require.Fail(t, "the session is lost")
		default:
		}
		dials := i.dials()
		time.Sleep(scriptedTTL)
		<-s.lost
		i.driver.mu.Lock()
		require.ErrorIs(t, s.left, store.ErrDenied)
		i.driver.mu.Unlock()
		time.Sleep(8 * scriptedTTL)
		require.LessOrEqual(t, i.dials()-dials, 6*9+1)
		_, err := i.driver.up(t.Context())
		require.ErrorIs(t, err, store.ErrDenied)
		i.set("second", "second", nil)
		time.Sleep(scriptedTTL / 3)
		require.NotEqual(t, s.id, i.server.session(t, i.driver).id)
	})
}
