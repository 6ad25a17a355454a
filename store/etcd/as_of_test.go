package etcd_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/stretchr/testify/require"
)

// follow follows an election until the end of the test.
func follow(t *testing.T, st store.Store, election string) *leadership.Follower {
	t.Helper()
	f, err := leadership.NewFollower(st, election, nil)
	require.NoError(t, err)
	t.Cleanup(func() { f.Stop(); <-f.Done() })
	f.Start()
	return f
}

// requireRight fails if a follower says that there is no leader as of a time at which there was one.
func requireRight(t *testing.T, f *leadership.Follower, changed time.Time) (told bool) {
	t.Helper()
	asOf := f.AsOf() // read before the leader, which might change meanwhile
	_, told = f.Leader()
	if !told {
		require.False(t, asOf.After(changed), "%v after the change", asOf.Sub(changed))
	}
	return told
}

// A follower's knowledge is confirmed while the cluster answers, and not while it does not.
func TestAsOf(t *testing.T) {
	t.Parallel()
	network := conformance.NewNetwork()
	election := newElection()
	f := follow(t, open(t, etcd.Config{Dial: network.Dial}), election)
	goesOn := func() {
		t.Helper()
		now := time.Now()
		eventually(t, func() bool { return f.AsOf().After(now) }, "it is confirmed")
		require.True(t, f.AsOf().Before(time.Now()))
	}
	goesOn()
	goesOn()
	network.Cut()
	cut := time.Now()
	b := castFirst(t, open(t, etcd.Config{}), election, "own")
	leader := acknowledge(t, b, "own")
	eventually(t, func() bool {
		require.False(t, f.AsOf().After(cut), "the follower does not know of the change")
		return time.Since(cut) > 2*ttl
	}, "two TTLs")
	network.Heal()
	seen, err := f.Wait(soon(t))
	require.NoError(t, err)
	require.Equal(t, leader, seen)
	goesOn()
}

// While a watch's events do not arrive, nothing confirms that the watch has reported everything, although reads are
// answered.
func TestAsOfWhileAWatchIsSilent(t *testing.T) {
	t.Parallel()
	tp := newTap(t)
	st := open(t, etcd.Config{Client: tp.client, TTL: middling})
	election := newElection()
	ctx, cancel := context.WithCancel(soon(t))
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	for i := range 8 { // whose turn to resync comes before
		others.Go(func() {
			_, _ = storetest.Leader(ctx, st, fmt.Sprintf("%s/%d", election, i), &store.Leader{})
		})
	}
	eventually(t, func() bool { return st.Watches() == 8 }, "the others wait")
	f := follow(t, st, election)
	eventually(t, func() bool { return st.Watches() == 9 }, "the follower waits")
	hear := tp.silenceWatches()
	asked := tp.Count("progress_request")
	b := castFirst(t, open(t, etcd.Config{TTL: long}), election, "own")
	leader := acknowledge(t, b, "own")
	changed := time.Now()
	// Only once: on a busy machine the store might take the stream for silent before it asks again, and the next stream
	// has no watch to ask about.
	eventually(t, func() bool {
		requireRight(t, f, changed)
		return tp.Count("progress_request") > asked
	}, "it is asked whether the watches are silent")
	eventually(t, func() bool {
		requireRight(t, f, changed)
		return tp.opened("Watch") > 1
	}, "another stream")
	hear()
	seen, err := f.Wait(soon(t))
	require.NoError(t, err)
	require.Equal(t, leader, seen)
	eventually(t, func() bool { return f.AsOf().After(changed) }, "it is confirmed")
}
