package demo

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A broken promise ends the demo.
func TestBrokenPromises(t *testing.T) {
	at := time.Now()
	learn := func(name string) event { return event{At: at, Who: follower, What: learnt, Name: name} }
	elect := func(name string) event { return event{At: at, Who: name, What: elected} }
	for name, c := range map[string]struct {
		event event
		want  string
	}{
		"two leaders":      {elect("b"), "b was elected while a led"},
		"lost by itself":   {event{At: at, Who: "a", What: ended, Text: "leads no longer: oh"}, "a leads no longer: oh; and nothing was done to it"},
		"leader on waking": {event{At: at, Who: "a", What: woke, Leads: true}, "a saw itself as leader when it woke, and a led"},
		"wrong leader":     {learn("b"), `the follower was told that b leads, and the last to be elected was ""`},
	} {
		t.Run(name, func(t *testing.T) {
			s := stage()
			s.handle(elect("a"))
			s.handle(learn("a"))
			require.NoError(t, s.err)
			s.turns = append(s.turns, turn{after: "resign a", due: "b"})
			s.handle(c.event)
			require.EqualError(t, s.err, c.want)
		})
	}
	s := stage()
	s.handle(elect("a"))
	s.handle(elect("b"))
	require.EqualError(t, s.err, "b was elected, and nothing was done to a")
}
