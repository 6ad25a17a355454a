package leadership_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// TestRequestsAreNoChurn: however often an operator asks a candidate to resign, it stands again at once.
func TestRequestsAreNoChurn(t *testing.T) {
	const soon = 10 * time.Millisecond // the back-off begins with one
	virtualRun(t, "of one that leads", func(w *world) {
		c := w.candidate(w.open(), "a", nil)
		c.RunForElection()
		w.until(c.IsLeader)
		for i := range 20 {
			asked, token := w.now(), c.Term().Token()
			require.NoError(w, w.observer.RequestResignation(background, election, token))
			w.until(func() bool { term := c.Term(); return term != nil && term.Token() > token })
			require.Less(w, w.now()-asked, soon, "after %d requests", i+1)
		}
	})
	virtualRun(t, "of one that waits", func(w *world) {
		st := &fakeStore{Store: w.open()}
		cast := 0
		st.cast = func(ctx context.Context, election, value string) (store.Ballot, error) {
			cast++
			ballot, err := st.Store.Cast(ctx, election, value)
			return askedBallot{ballot}, err
		}
		c := w.candidate(st, "a", nil)
		c.RunForElection()
		w.at(20 * soon)
		require.GreaterOrEqual(w, cast, 20)
		require.False(w, c.IsLeader())
	})
}

// askedBallot is one whose owner has been asked to resign.
type askedBallot struct{ store.Ballot }

// ResignationRequested implements store.Ballot.
func (askedBallot) ResignationRequested() <-chan struct{} {
	asked := make(chan struct{})
	close(asked)
	return asked
}
