package storetest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// CloseRefusesCasts checks that Close accepts no cast once it has begun to end the ballots. An accepted ballot
// could win, and its session would be revoked while its lease holds.
func CloseRefusesCasts(t *testing.T, open func() store.Store) {
	for range 10 { // the moment is short
		closeWhileCasting(t, open())
	}
}

func closeWhileCasting(t *testing.T, st store.Store) {
	t.Helper()
	ballots := make([]store.Ballot, 200) // ending them takes so long that the first is seen lost before the last is
	errs := make([]error, len(ballots))
	var casting sync.WaitGroup
	for i := range ballots {
		casting.Go(func() { ballots[i], errs[i] = TryCast(Soon(t), st, NewElection(), "own") })
	}
	casting.Wait()
	require.NoError(t, errors.Join(errs...))
	ended, cancel := context.WithCancel(context.Background())
	cancel() // such a cast ends with this context's error if the store still accepts it
	refused := make(chan error, len(ballots))
	for _, b := range ballots {
		go func() {
			<-b.Lost()
			_, err := st.Cast(ended, NewElection(), "late")
			refused <- err
		}()
	}
	require.NoError(t, st.Close())
	for range ballots {
		require.ErrorIs(t, Receive(t, refused, "the end of a cast"), store.ErrClosed)
	}
}
