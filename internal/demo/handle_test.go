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

func TestVerdict(t *testing.T) {
	right := []turn{
		{after: "start", due: "a", leader: "a", token: 1, took: time.Hour},
		{after: "kill a", due: "b", leader: "b", token: 5, took: time.Second, bound: time.Second},
		{after: "end b", due: "c", leader: "c", token: 6},
	}
	require.NoError(t, verdict(right))
	for want, spoil := range map[string]func([]turn){
		`after "kill a" it took 1.001s until b led, more than 1s`:    func(turns []turn) { turns[1].took += time.Millisecond },
		"c's token, 5, is not higher than 5, which was there before": func(turns []turn) { turns[2].token = 5 },
		`after "end b" a was elected, and c was next in line`:        func(turns []turn) { turns[2].leader = "a" },
	} {
		turns := append([]turn(nil), right...)
		spoil(turns)
		require.EqualError(t, verdict(turns), want)
	}
}

func TestBounds(t *testing.T) {
	const ttl = 4 * time.Second
	for scheme, want := range map[string]bounds{
		"file":           {kill: time.Second, freeze: 5 * time.Second, resign: time.Second},
		"etcd+tls":       {kill: 5 * time.Second, freeze: 5 * time.Second, resign: time.Second},
		"zookeeper":      {kill: 8 * time.Second, freeze: 8 * time.Second, resign: time.Second},
		"consul":         {kill: 5500 * time.Millisecond, freeze: 5500 * time.Millisecond, resign: time.Second},
		"somebody-elses": {resign: time.Second},
	} {
		require.Equal(t, want, boundsOf(scheme, ttl, Config{}), scheme)
	}
	require.Equal(t, 21*time.Second, boundsOf("consul", 10*time.Second, Config{}).kill)
	require.Equal(t, bounds{3 * time.Second, 3 * time.Second, 2 * time.Second},
		boundsOf("zookeeper", ttl, Config{Crash: 2 * time.Second, Slack: time.Second}))
	require.Equal(t, bounds{resign: 2 * time.Second}, boundsOf("other", ttl, Config{Slack: time.Second}))
}
