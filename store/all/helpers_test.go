package all_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// kinds are the schemes of the stores.
var kinds = []string{"zookeeper", "etcd", "consul", "memory"}

// watchdog ends a wait for something that ought to take milliseconds, or a TTL.
const watchdog = 40 * time.Second

var elections atomic.Int64

// newElection returns the name of an election that no other test uses. It has two parts.
func newElection() string { return fmt.Sprintf("test/%d", elections.Add(1)) }

// soon returns a context that ends when the wait for something has failed.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), watchdog)
	t.Cleanup(cancel)
	return ctx
}

// on returns the URL of a store of a kind, with options.
func on(t *testing.T, kind, options string) string {
	t.Helper()
	return kind + "://" + address(t, kind) + "/?" + options
}

// open opens a store, through a network if there is one. The end of the test closes it.
func open(t *testing.T, raw string, through *conformance.Network) store.Store {
	t.Helper()
	u, err := store.ParseURL(raw)
	require.NoError(t, err)
	if through != nil {
		u.Dial = through.Dial
	}
	st, err := store.OpenURL(soon(t), u)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

// cast casts a ballot as a candidate does: again, where the service was out of reach for the time of a TTL.
func cast(t *testing.T, st store.Store, election, value string) store.Ballot {
	t.Helper()
	for {
		b, err := st.Campaign(soon(t), election, value)
		if !errors.Is(err, store.ErrUnavailable) {
			require.NoError(t, err)
			return b
		}
	}
}

// lead casts a ballot, waits until it is first, and acknowledges: again, where a slow machine cost it the session.
func lead(t *testing.T, st store.Store, election, value string) (store.Ballot, store.Leader) {
	t.Helper()
	for {
		b := cast(t, st, election, value)
		err := b.Wait(soon(t))
		var leader store.Leader
		if err == nil {
			leader, err = b.Acknowledge(soon(t), value)
		}
		if !errors.Is(err, store.ErrLost) {
			require.NoError(t, err)
			return b, leader
		}
	}
}

// lost waits until the ballot is lost.
func lost(t *testing.T, b store.Ballot) {
	t.Helper()
	select {
	case <-b.Lost():
		require.ErrorIs(t, b.Err(), store.ErrLost)
	case <-soon(t).Done():
		require.FailNow(t, "the ballot was not lost")
	}
}

// eventually waits until the condition holds.
func eventually(t *testing.T, condition func() bool, what string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := soon(t); !condition(); {
		select {
		case <-tick.C:
		case <-end.Done():
			require.FailNow(t, "it did not happen: "+what)
		}
	}
}
