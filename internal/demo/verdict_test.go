package demo

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
