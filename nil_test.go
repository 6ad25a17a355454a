package leadership_test

import (
	"context"
	"testing"

	"github.com/go-leadership/leadership"
	"github.com/stretchr/testify/require"
)

// A required argument that is nil is refused by the call that got it. An optional one stands for the default.
func TestNil(t *testing.T) {
	virtual(t, func(w *world) {
		_, err := leadership.NewCandidate(nil, election, "a", nil)
		require.EqualError(w, err, "invalid store: it is nil")
		_, err = leadership.NewFollower(nil, election, nil)
		require.EqualError(w, err, "invalid store: it is nil")

		st := w.open()
		c := w.candidate(st, "a", &leadership.Options{Hooks: &leadership.Hooks{}})
		f := w.follower(st, &leadership.Options{})
		for name, register := range map[string]func(){
			"OnWon":                      func() { c.OnWon(nil) },
			"OnNewLeader of a candidate": func() { c.OnNewLeader(nil) },
			"OnTermEnded":                func() { c.OnTermEnded(nil) },
			"OnTakeoverFailed":           func() { c.OnTakeoverFailed(nil) },
			"OnNewLeader":                func() { f.OnNewLeader(nil) },
			"OnLeaderGone":               func() { f.OnLeaderGone(nil) },
		} {
			require.PanicsWithValue(w, "leadership: the callback is nil", register, name)
		}
		var none context.Context
		require.Panics(w, func() { _, _ = c.Campaign(none) })
		require.Panics(w, func() { _ = c.Run(none, leadership.Lead) })
		require.PanicsWithValue(w, "leadership: Run has no function to call; leadership.Lead acknowledges and waits", func() { _ = c.Run(background, nil) })
		require.Panics(w, func() { _, _ = f.Wait(none) })
		_, _ = c.RunForElection()
		f.Start()
		leader, err := f.Wait(background)
		require.NoError(w, err, "after all that")
		require.Equal(w, "a", leader.Value)
		halt(c)
		halt(f)
	})
}
