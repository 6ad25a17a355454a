package leadership

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/go-leadership/leadership/store"
)

// candidacy is what a candidate stands with, and shares with its terms: the election, the store and the value, and the
// channels and news that tell of the terms.
type candidacy struct {
	news
	store    store.Store
	value    string
	channels termChannels
	warned   atomic.Bool // of an acknowledgement that was missing; once for all terms
}

// withdraw gives a ballot back. It waits for the store no longer than one TTL: a session is gone by then if the service
// does not hear from it, and a link that takes longer than that can't keep one. The store goes on by itself after that.
func (c *candidacy) withdraw(ballot store.Ballot) {
	ctx, cancel := context.WithTimeout(context.Background(), c.store.TTL())
	defer cancel()
	err := ballot.Withdraw(ctx)
	if err != nil && !errors.Is(err, ErrClosed) { // Close ends the session, as far as it can reach the service
		c.log.Warn("could not confirm that the ballot was removed", "token", ballot.Token(), "error", err)
	}
}
