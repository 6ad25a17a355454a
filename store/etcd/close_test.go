package etcd_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// closeLimit is how long Close may take on a busy machine: it asks for no more than 3 s.
const closeLimit = 10 * time.Second

// Close with everything running: calls return ErrClosed and ballots are lost. When Close returns, keys, lease,
// goroutines and connections are gone. A second Close does nothing.
func TestClose(t *testing.T) {
	client := operator(t)
	require.Empty(t, keys(t, client, "nothing")) // which connects
	before := goleak.IgnoreCurrent()
	var conns storetest.Connections
	election := newElection()
	st, err := etcd.Open(etcd.Config{Endpoints: sharedServer(t).Addrs(), Dial: conns.Dial, TTL: long})
	require.NoError(t, err)
	first, second := castFirst(t, st, election, "first"), cast(t, st, election, "second")
	acknowledge(t, first, "first")
	leader, err := storetest.Leader(soon(t), st, election, nil)
	require.NoError(t, err)
	_, lease := ballotOf(t, client, election, "first")
	ended := make(chan error, 4)
	go func() { ended <- second.Wait(context.Background()) }()
	go func() { _, err := storetest.Leader(context.Background(), st, election, &leader); ended <- err }()
	go func() {
		_, err := storetest.Leader(context.Background(), st, election+"x", &store.Leader{Revision: 1, Value: "x"})
		for err == nil {
			_, err = storetest.Leader(context.Background(), st, election+"x", &store.Leader{})
		}
		ended <- err
	}()
	go func() {
		var err error
		for err == nil {
			_, err = st.Cast(context.Background(), election+"y", "y")
		}
		ended <- err
	}()
	eventually(t, func() bool { return len(values(t, st, election+"y")) > 3 }, "campaigns are under way")
	require.NoError(t, st.Close())
	require.Zero(t, conns.Open())
	for range 4 {
		require.ErrorIs(t, receive(t, ended, "the end of a call"), store.ErrClosed)
	}
	goleak.VerifyNone(t, before)
	for _, b := range []store.Ballot{first, second} {
		lost(t, b)
		require.ErrorIs(t, b.Err(), store.ErrClosed)
		require.Zero(t, b.Lease().Remaining())
		require.Error(t, b.Withdraw(soon(t)))
		_, err := b.Acknowledge(soon(t), "x")
		require.ErrorIs(t, err, store.ErrClosed)
	}
	require.Empty(t, keys(t, client, ackKey(election)))
	info, err := client.TimeToLive(soon(t), lease)
	require.NoError(t, err)
	require.EqualValues(t, -1, info.TTL)
	require.NoError(t, st.Close())
	_, err = st.Cast(soon(t), election, "x")
	require.ErrorIs(t, err, store.ErrClosed)
	_, err = storetest.Leader(soon(t), st, election, nil)
	require.ErrorIs(t, err, store.ErrClosed)
	_, err = st.Ballots(soon(t), election)
	require.ErrorIs(t, err, store.ErrClosed)
}

// Close at a bad moment also returns soon, and leaves nothing behind.
func TestCloseInBadTimes(t *testing.T) {
	server, _ := guarded(t)
	config := user(t, server, "ann")
	silent := storetest.SilentServer(t)
	before := goleak.IgnoreCurrent()
	for name, c := range map[string]struct {
		change func(c *etcd.Config, network *conformance.Network)
		work   func(st *etcd.Store, network *conformance.Network)
	}{
		"at once":          {},
		"no server":        {change: func(c *etcd.Config, _ *conformance.Network) { c.Endpoints = []string{"127.0.0.1:1"} }},
		"silence":          {change: func(c *etcd.Config, _ *conformance.Network) { c.Endpoints = []string{silent} }},
		"wrong password":   {change: func(c *etcd.Config, _ *conformance.Network) { c.Password = "wrong" }},
		"cut off at first": {change: func(_ *etcd.Config, network *conformance.Network) { network.Cut() }},
		"cut off while leading": {work: func(st *etcd.Store, network *conformance.Network) {
			castFirst(t, st, "a", "own")
			network.Cut()
		}},
		"replies lost": {work: func(st *etcd.Store, network *conformance.Network) {
			castFirst(t, st, "b", "own")
			network.LoseReplies()
			_, _ = st.Cast(within(t, 100*time.Millisecond), "b", "abandoned")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			network := conformance.NewNetwork()
			config := config
			config.Dial, config.TTL = network.Dial, middling
			if c.change != nil {
				c.change(&config, network)
			}
			st, err := etcd.Open(config)
			require.NoError(t, err)
			ended := make(chan error, 3)
			go func() { _, err := st.Cast(context.Background(), "c", "x"); ended <- err }()
			go func() { _, err := storetest.Leader(context.Background(), st, "c", &store.Leader{}); ended <- err }()
			go func() { _, err := st.Ballots(context.Background(), "d"); ended <- err }()
			if c.work != nil {
				c.work(st, network)
			}
			start := time.Now()
			closing := make(chan error, 2)
			for range 2 {
				go func() { closing <- st.Close() }()
			}
			for range 2 {
				require.NoError(t, receive(t, closing, "the end of Close"))
			}
			require.Less(t, time.Since(start), closeLimit)
			for range 3 {
				receive(t, ended, "the end of a call")
			}
			goleak.VerifyNone(t, before)
		})
	}
}

func TestCloseAcceptsNoCampaignOnceBallotsAreLost(t *testing.T) {
	storetest.CloseRefusesCasts(t, func() store.Store {
		return open(t, etcd.Config{TTL: long})
	})
}
