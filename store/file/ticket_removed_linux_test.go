package file

import (
	"os"
	"testing"

	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// TestBallotWithoutTicketIsWithdrawn: an operator removes the ticket of a leader. The others count its ballot no more, so
// its owner withdraws it, and followers see no leader.
func TestBallotWithoutTicketIsWithdrawn(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	d := driverWith(t, c, kernel{})
	s := &enterer{t: t, s: sessionOf(t, d)}
	e := s.enter()
	_, err := s.s.Acknowledge(soon(t), e, "value")
	require.NoError(t, err)
	require.NoError(t, os.Remove(numberIn(d.dirOf("e").queue(), e.Token)))

	var states []engine.State
	tell := func(n engine.News) {
		if n.State != nil {
			states = append(states, *n.State)
		}
	}
	w, err := d.WatchEntry(soon(t), e.Key, tell)
	require.NoError(t, err)
	w.Stop()
	require.Equal(t, []engine.State{{}}, states)
	w, err = d.WatchLeader(soon(t), "e", tell)
	require.NoError(t, err)
	w.Stop()
	require.Zero(t, states[1].Leader)
}
