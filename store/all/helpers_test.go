package all_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// kinds are the schemes of the stores.
var kinds = []string{"zookeeper", "etcd", "consul", "memory"}

var elections atomic.Int64

// newElection returns the name of an election that no other test uses. It has two parts.
func newElection() string { return fmt.Sprintf("test/%d", elections.Add(1)) }

// The names under which these tests use what package storetest has for the tests of all stores.
var (
	soon           = storetest.Soon
	eventually     = storetest.Eventually
	cast           = storetest.Cast
	lost           = storetest.Lost
	requireInvalid = storetest.RequireInvalid
)

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

// lead casts a ballot, waits until it is first, and acknowledges. It tries again if the session was lost on a slow
// machine.
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
