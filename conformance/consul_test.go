package conformance_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

// onConsul is the harness of a real Consul.
func onConsul(t *testing.T, srv *testserver.Consul, ttl, expiry time.Duration) conformance.Harness {
	operator, err := api.NewClient(&api.Config{Address: srv.Addrs()[0]})
	require.NoError(t, err)
	return conformance.Harness{
		Open: func(_ context.Context, dial conformance.DialFunc) (store.Store, error) {
			return consul.Open(consul.Config{Addresses: srv.Addrs()[:1], TTL: ttl, Dial: dial})
		},
		Clear: func(ctx context.Context, election string) error {
			key, w := "leadership/"+election, (&api.WriteOptions{}).WithContext(ctx)
			_, ack := operator.KV().Delete(key, w)
			_, rest := operator.KV().DeleteTree(key+"/_", w)
			return errors.Join(ack, rest)
		},
		TTL:    ttl,
		Expiry: expiry,
	}
}

// Below 10 s a check ends the session, a moment after the TTL.
func TestConsul(t *testing.T) {
	const ttl = time.Second
	conformance.Run(t, onConsul(t, testserver.NewConsul(t, testserver.ConsulConfig{}), ttl, ttl+time.Second))
}
