package leadership_test

import (
	"testing"

	"github.com/go-leadership/leadership"
	"github.com/stretchr/testify/require"
)

// The elector says yes from the acknowledgement on, and until the term ends by the clock.
func TestElector(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		c := w.candidate(st, "a", nil)
		e := c.Elector()
		refuses := func(words string) {
			w.Helper()
			err := e.IsLeader(background)
			require.ErrorIs(w, err, leadership.ErrNotElected)
			require.ErrorContains(w, err, words)
		}
		refuses("the candidate does not lead")
		term := w.campaign(c)
		refuses("the candidate has not acknowledged")
		require.NoError(w, term.Acknowledge(background))
		require.NoError(w, e.IsLeader(background))

		st.Faults().Cut()
		w.until(func() bool { return term.Remaining() == 0 })
		refuses("the candidate does not lead")
		st.Faults().Heal()
		require.NoError(w, term.Withdraw(background))

		term = w.campaign(c)
		refuses("the candidate has not acknowledged")
		require.NoError(w, term.Acknowledge(background))
		require.NoError(w, e.IsLeader(background))
		c.Resign()
		refuses("the candidate does not lead")
		require.NoError(w, term.Withdraw(background))
	})
}
