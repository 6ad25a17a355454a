package conformance_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// stuck is a store whose Cast ignores its context, and returns when the test says so.
type stuck struct {
	store.Store
	letGo chan struct{}
}

func (s *stuck) Cast(context.Context, string, string) (store.Ballot, error) {
	<-s.letGo
	return nil, store.ErrUnavailable
}

func (s *stuck) Close() error { return nil }

// The watchdog fails a case that does not end. What the case reports after that changes nothing.
func TestWatchdog(t *testing.T) {
	cases := conformance.Cases()
	i := slices.IndexFunc(cases, func(c conformance.Case) bool { return c.Name == "values-are-bytes" })
	require.GreaterOrEqual(t, i, 0)
	st, cleared := &stuck{letGo: make(chan struct{})}, make(chan struct{})
	r := &recorder{}
	cases[i].Check(r, conformance.Harness{
		Open:     func(context.Context, conformance.DialFunc) (store.Store, error) { return st, nil },
		Clear:    func(context.Context, string) error { close(cleared); return nil },
		TTL:      time.Second,
		Expiry:   time.Second,
		Watchdog: 20 * time.Millisecond,
	})
	require.Contains(t, r.log, "did not end within 20ms")
	said := r.log
	close(st.letGo)
	<-cleared // the last call of a case
	require.Equal(t, said, r.log)
}
