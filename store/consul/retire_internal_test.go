package consul

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// A session that can't be destroyed delays no other, and is given up: an error for each request of one kind is no outage.
func TestSessionThatIsNotDestroyed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &awayAgent{}
		d, err := newDriver(Config{Addresses: []string{"a"}, TTL: leastSessionTTL, Dial: a.dial})
		require.NoError(t, err)
		defer a.serving.Wait()
		defer func() { require.NoError(t, d.Close()) }()
		d.leave(&session{driver: d, id: "stuck"})
		d.leave(&session{driver: d, id: "next"})
		s, _, err := d.Open(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 1, a.requests.Load())
		ctx, cancel := context.WithTimeout(t.Context(), 3*leastSessionTTL)
		defer cancel()
		_ = s.Keep(ctx, func(engine.Proof) {})
		require.EqualValues(t, mostTries, a.requests.Load())
	})
}
