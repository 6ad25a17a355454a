package zookeeper_test

import (
	"context"
	"sync"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/stretchr/testify/require"
)

// Close accepts no campaign once it has begun to end the ballots. One that it still accepted could win, and its session
// would be revoked while its lease holds.
func TestCloseAcceptsNoCampaignOnceBallotsAreLost(t *testing.T) {
	for range 10 { // the moment is short
		closeWhileCampaigning(t)
	}
}

func closeWhileCampaigning(t *testing.T) {
	st := open(t, zookeeper.Config{Servers: sharedServer(t).Addrs(), TTL: long})
	ballots := make([]store.Ballot, 200) // losing them takes so long that the first is seen lost before the last is
	var casting sync.WaitGroup
	for i := range ballots {
		casting.Go(func() { ballots[i], _ = st.Campaign(soon(t), newElection(), "own") })
	}
	casting.Wait()
	for _, b := range ballots {
		require.NotNil(t, b)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel() // such a campaign ends with this context's error if the store still accepts it
	refused := make(chan error, 1)
	go func() {
		for {
			for _, b := range ballots {
				if b.Err() != nil {
					_, err := st.Campaign(ended, newElection(), "late")
					refused <- err
					return
				}
			}
		}
	}()
	require.NoError(t, st.Close())
	require.ErrorIs(t, receive(t, refused, "the end of the campaign"), store.ErrClosed)
}
