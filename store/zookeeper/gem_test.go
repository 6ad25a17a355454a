package zookeeper_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/stretchr/testify/require"
)

// oddBytes is a value that shows whether the store adds, encodes or cuts anything.
const oddBytes = "db2:4567\x00\xff é\n"

// A ballot of the gem is listed as such, and a request to resign is refused: its owner would never read it.
func TestCandidatesOfTheGemAreForeign(t *testing.T) {
	t.Parallel()
	election := newElection()
	st := open(t, zookeeper.Config{})
	g := newGemCandidate(t, election, "gem")
	receive(t, g.won, "the gem's win")
	b := cast(t, st, election, "ours")
	list, err := st.Ballots(soon(t), election)
	require.NoError(t, err)
	token := list[0].Token
	require.ErrorIs(t, st.RequestResignation(soon(t), election, token), errors.ErrUnsupported)
	require.NoError(t, st.RequestResignation(soon(t), election, b.Token()))
	list, err = st.Ballots(soon(t), election)
	require.NoError(t, err)
	require.Equal(t, []store.Standing{
		{Value: "gem", Token: token, Foreign: true}, {Value: "ours", Token: b.Token(), Asked: true},
	}, list)
}

// Candidates of the gem and of the store stand in line, and each leads in turn.
func TestGemCandidatesStandInTheSameElection(t *testing.T) {
	t.Parallel()
	election := newElection() + "/with parts"
	follower := newFollower(t, open(t, zookeeper.Config{}), election)
	require.Equal(t, "", receive(t, follower, "the first state"))
	observer := newGemObserver(t, election)
	require.Equal(t, "death", receive(t, observer.reports, "the observer's first state"))

	type peer struct {
		value string
		won   func() // waits until it leads and has acknowledged
		waits func() // waits until it follows the one before, and checks that it does not lead
		leave func()
	}
	var peers []peer
	for i, kind := range []string{"gem", "ours", "gem", "ours", "ours", "gem", "gem", "ours"} {
		value := string(rune('a'+i)) + oddBytes
		if kind == "gem" {
			g := newGemCandidate(t, election, value)
			following := sync.OnceFunc(func() { receive(t, g.follows, "the gem's watch") })
			peers = append(peers, peer{
				value: value,
				won:   func() { receive(t, g.won, "the gem's win") },
				waits: func() {
					following()
					select {
					case <-g.won:
						require.FailNow(t, "the gem's candidate leads out of turn")
					default:
					}
				},
				leave: g.close,
			})
			continue
		}
		c := contend(t, open(t, zookeeper.Config{}), election, value)
		st := open(t, zookeeper.Config{})
		eventually(t, func() bool { return slices.Contains(values(t, st, election), value) }, "the ballot")
		peers = append(peers, peer{
			value: value,
			won:   func() { receive(t, c.Terms, "our win") },
			waits: func() { require.False(t, c.IsLeader()) },
			leave: c.End,
		})
	}
	for i, p := range peers {
		p.won()
		for _, later := range peers[i+1:] {
			later.waits()
		}
		require.Equal(t, p.value, afterDeath(t, follower, ""))
		require.Equal(t, "leader "+p.value, afterDeath(t, observer.reports, "death"))
		p.leave()
	}
	require.Equal(t, "", receive(t, follower, "the end"))
	require.Equal(t, "death", receive(t, observer.reports, "the end"))
}

// afterDeath returns the next value. It skips one that reports a leader's end: whether that is seen depends on timing.
func afterDeath(t *testing.T, values <-chan string, death string) string {
	t.Helper()
	if value := receive(t, values, "a new leader"); value != death {
		return value
	}
	return receive(t, values, "a new leader, after the old one's death")
}

// newFollower returns the channel of a follower that lives as long as the test.
func newFollower(t *testing.T, st *zookeeper.Store, election string) <-chan string {
	t.Helper()
	f, err := leadership.NewFollower(st, election, nil)
	require.NoError(t, err)
	t.Cleanup(f.Stop)
	values, _ := f.FollowElection()
	return values
}
