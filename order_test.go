package leadership_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
)

// members are candidates with a session each, numbered in the order of their ballots.
type members struct {
	w          *world
	candidates []*leadership.Candidate
	stores     []*memory.Store
}

func elect(w *world, n int) *members {
	m := &members{w: w}
	for i := range n {
		st := w.open()
		c := w.candidate(st, fmt.Sprint(i), nil)
		c.RunForElection()
		synctest.Wait()
		m.candidates, m.stores = append(m.candidates, c), append(m.stores, st)
	}
	return m
}

// leaders returns the numbers of all members that see themselves as leader.
func (m *members) leaders() []int {
	synctest.Wait()
	list := []int{}
	for i, c := range m.candidates {
		if c.IsLeader() {
			list = append(list, i)
		}
	}
	return list
}

// Elections of one, two and three, of which some members leave, those before the others first or last.
func TestMembersLeave(t *testing.T) {
	for _, test := range []struct {
		members int
		leave   []int
		leader  []int
	}{
		{1, nil, []int{0}}, {1, []int{0}, []int{}},
		{2, nil, []int{0}}, {2, []int{0}, []int{1}}, {2, []int{1}, []int{0}}, {2, []int{0, 1}, []int{}},
		{3, nil, []int{0}}, {3, []int{1}, []int{0}}, {3, []int{2}, []int{0}}, {3, []int{1, 2}, []int{0}},
		{3, []int{0, 1}, []int{2}}, {3, []int{1, 0}, []int{2}}, {3, []int{0, 2}, []int{1}}, {3, []int{2, 0}, []int{1}},
	} {
		t.Run(fmt.Sprint(test.members, " without ", test.leave), func(t *testing.T) {
			for _, crash := range []bool{false, true} {
				virtual(t, func(w *world) {
					m := elect(w, test.members)
					require.Equal(w, []int{0}, m.leaders())
					for _, i := range test.leave {
						if crash {
							m.stores[i].Faults().Cut()
						} else {
							halt(m.candidates[i])
						}
					}
					if crash {
						w.at(2 * ttl)
					}
					require.Equal(w, test.leader, m.leaders())
					if len(test.leader) > 0 {
						require.Equal(w, fmt.Sprint(test.leader[0]), w.leader())
					}
					if !crash {
						require.Zero(w, w.now(), "a graceful exit hands over at once")
					}
				})
			}
		})
	}
}

// Five candidates: if a middle one dies none is promoted; if the first dies the second leads.
func TestMiddleMemberDies(t *testing.T) {
	virtual(t, func(w *world) {
		m := elect(w, 5)
		m.stores[2].Faults().Cut()
		w.at(2 * ttl)
		require.Equal(w, []int{0}, m.leaders())
		require.Equal(w, []string{"0", "1", "3", "4"}, w.ballots())
		m.stores[0].Faults().Cut()
		w.at(4 * ttl)
		require.Equal(w, []int{1}, m.leaders())
		halt(m.candidates[1])
		require.Equal(w, []int{3}, m.leaders())
	})
}

// The leader dies before it acknowledges: the next one leads, and no follower is told of the first.
func TestLeaderDiesBeforeItAcknowledges(t *testing.T) {
	virtual(t, func(w *world) {
		var happened diary
		f := w.follower(w.open(), nil)
		f.OnNewLeader(func(leader leadership.Leader) { happened.add("%s", leader.Value) })
		f.Start()
		st := w.open()
		a, b := w.candidate(st, "a", nil), w.candidate(w.open(), "b", nil)
		a.OnWon(func(ctx context.Context, _ *leadership.Term) error { <-ctx.Done(); return context.Cause(ctx) })
		a.RunForElection()
		synctest.Wait()
		b.OnNewLeader(func(_ context.Context, leader store.Leader) { happened.add("b lost to %s", leader.Value) })
		b.RunForElection()
		synctest.Wait()
		st.Faults().Cut()
		w.at(2 * ttl)
		require.True(w, b.IsLeader())
		require.Equal(w, []string{"b"}, happened.all())
	})
}

// Elections whose names contain each other stay apart, on one session or on two.
func TestElectionsSideBySide(t *testing.T) {
	virtual(t, func(w *world) {
		one, two := w.open(), w.open()
		for _, name := range []string{"a", "a/b", "a/b/c", "a b", "ведущий", "a.", "b"} {
			for i, st := range []store.Store{one, one, two} {
				c, err := leadership.NewCandidate(st, name, fmt.Sprint(name, i), nil)
				require.NoError(w, err)
				c.RunForElection()
				defer c.Stop()
				synctest.Wait()
				require.Equal(w, i == 0, c.IsLeader(), "%q %d", name, i)
			}
		}
		for _, name := range []string{"a", "a/b", "a/b/c", "a b", "ведущий", "a.", "b"} {
			leader, err := storetest.Leader(background, w.observer, name, nil)
			require.NoError(w, err)
			require.Equal(w, name+"0", leader.Value)
		}
	})
}
