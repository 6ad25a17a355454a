package etcd_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/stretchr/testify/require"
)

// What is confirmed moves on while the cluster answers, with a call that waits and without one, and stands still while
// it does not.
func TestConfirmed(t *testing.T) {
	t.Parallel()
	network := conformance.NewNetwork()
	st := open(t, etcd.Config{Dial: network.Dial})
	moves := func() {
		t.Helper()
		now := time.Now()
		eventually(t, func() bool { return st.Confirmed().After(now) }, "it is confirmed")
		require.True(t, st.Confirmed().Before(time.Now()))
	}
	moves()
	election := newElection()
	told := make(chan store.Leader, 1)
	go func() {
		leader, _ := st.Leader(soon(t), election, &store.Leader{})
		told <- leader
	}()
	eventually(t, func() bool { return st.Watches() == 1 }, "the call waits")
	moves()
	moves()
	network.Cut()
	cut := time.Now()
	b := castFirst(t, open(t, etcd.Config{}), election, "own")
	leader := acknowledge(t, b, "own")
	eventually(t, func() bool {
		require.False(t, st.Confirmed().After(cut), "the call has not heard of what happened")
		return time.Since(cut) > 2*ttl
	}, "two TTLs")
	network.Heal()
	require.Equal(t, leader, receive(t, told, "the leader"))
	moves()
}

// It is not confirmed that a watch has told all there was while its events do not arrive, though reads are answered.
func TestNotConfirmedWhileAWatchIsSilent(t *testing.T) {
	t.Parallel()
	tp := newTap(t)
	st := open(t, etcd.Config{Client: tp.client, TTL: middling})
	election := newElection()
	told := make(chan store.Leader, 1)
	ctx, cancel := context.WithCancel(soon(t))
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	for i := range 8 { // whose turn to look for themselves comes before
		others.Go(func() { _, _ = st.Leader(ctx, fmt.Sprintf("%s/%d", election, i), &store.Leader{}) })
	}
	eventually(t, func() bool { return st.Watches() == 8 }, "the others wait")
	go func() {
		leader, _ := st.Leader(soon(t), election, &store.Leader{})
		told <- leader
	}()
	eventually(t, func() bool { return st.Watches() == 9 }, "the call waits")
	hear := tp.silenceWatches()
	silent, asked := time.Now(), tp.Count("progress_request")
	b := castFirst(t, open(t, etcd.Config{TTL: long}), election, "own")
	leader := acknowledge(t, b, "own")
	// Once: a busy machine takes the stream for silent before it asks again, and the next stream has no watch to ask for.
	eventually(t, func() bool { return tp.Count("progress_request") > asked }, "it is asked whether the watches are silent")
	if confirmed := st.Confirmed(); len(told) == 0 {
		require.False(t, confirmed.After(silent))
	}
	eventually(t, func() bool { return tp.opened("Watch") > 1 }, "another stream")
	hear()
	require.Equal(t, leader, receive(t, told, "the leader"))
	eventually(t, func() bool { return st.Confirmed().After(silent) }, "it is confirmed")
}
