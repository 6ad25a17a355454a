package operate_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/directive"
	"github.com/go-leadership/leadership/operate"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// TestSwitchOver: again and again, to a waiter at any position: the target leads next, and no other in between.
func TestSwitchOver(t *testing.T) {
	virtual(t, 6, func(w *world) {
		w.ledBy()
		last := uint64(0)
		for range 40 {
			list := w.settle()
			target := list[1+rand.N(len(list)-1)]
			o, err := operate.SwitchOver(context.Background(), w.operator, election, target.Token)
			require.NoError(w, err)
			require.Equal(w, list, o.Before.Ballots)
			require.Equal(w, target.Token, o.After.Ballots[0].Token)
			require.Equal(w, target.Value, o.After.Leader.Value)
			for _, b := range o.After.Ballots {
				require.Contains(w, w.all, b.Value, "the operator's own ballot is none of a candidate")
			}
			require.Equal(w, []string{target.Value}, w.ledBy())
			require.Greater(w, target.Token, last)
			require.Less(w, o.Took, time.Second)
			last = target.Token
		}
		for _, b := range w.settle() {
			require.False(w, b.Asked, "marks go with their ballots")
		}
	})
}

// TestSwitchOverToOneThatGivesWay: the target leads, and no other in between, though it prefers one that waits, or the
// leader, which stands again. The operator's own ballot has gone by then.
func TestSwitchOverToOneThatGivesWay(t *testing.T) {
	for _, preferred := range []string{"c0", "c2"} {
		virtual(t, 1, func(w *world) {
			w.add("c1", preferred)
			w.add("c2")
			for range 5 {
				list := w.settle()
				at := slices.IndexFunc(list, func(b store.Standing) bool { return b.Value == "c1" })
				w.ledBy()
				if at > 0 {
					_, err := operate.SwitchOver(context.Background(), w.operator, election, list[at].Token)
					require.NoError(w, err)
					require.Equal(w, []string{"c1"}, w.ledBy())
					require.Len(w, w.settle(), 3)
				}
				w.all["c1"].Resign()
			}
		})
	}
}

// TestSwitchOverToTheLeader does nothing.
func TestSwitchOverToTheLeader(t *testing.T) {
	virtual(t, 3, func(w *world) {
		list := w.settle()
		o, err := operate.SwitchOver(context.Background(), w.operator, election, list[0].Token)
		require.NoError(w, err)
		require.Empty(w, o.Behind)
		require.Equal(w, list, w.queue())
	})
}

func TestRefusals(t *testing.T) {
	virtual(t, 3, func(w *world) {
		list := w.settle()
		_, err := operate.SwitchOver(context.Background(), w.operator, election, 999)
		require.ErrorIs(w, err, operate.ErrNotStanding)
		_, err = operate.StepDown(context.Background(), w.operator, election, 999)
		require.ErrorIs(w, err, operate.ErrNotStanding)
		ballot, err := w.operator.Cast(context.Background(), election, directive.Lead(list[2].Token))
		require.NoError(w, err)
		_, err = operate.SwitchOver(context.Background(), w.operator, election, ballot.Token())
		require.ErrorIs(w, err, operate.ErrNotStanding, "an operator's ballot never leads")
		require.NoError(w, ballot.Withdraw(context.Background()))
		for foreign := range 2 {
			st := &changed{Store: w.operator, change: func(list []store.Standing) { list[foreign].Foreign = true }}
			_, err = operate.SwitchOver(context.Background(), st, election, list[2].Token)
			require.ErrorIs(w, err, operate.ErrForeign)
		}
		st := &changed{Store: w.operator, change: func(list []store.Standing) { list[0].Foreign = true }}
		_, err = operate.StepDown(context.Background(), st, election, list[0].Token)
		require.ErrorIs(w, err, operate.ErrForeign)
		require.Equal(w, list, w.queue(), "nothing was marked")
	})
}

// changed is a store that lists other ballots, and whose requests fail if fails says so.
type changed struct {
	store.Store
	change func([]store.Standing)
	fails  func() error
}

func (c *changed) Ballots(ctx context.Context, election string) ([]store.Standing, error) {
	list, err := c.Store.Ballots(ctx, election)
	if c.change != nil {
		c.change(list)
	}
	return list, err
}

func (c *changed) RequestResignation(ctx context.Context, election string, token uint64) error {
	if c.fails != nil {
		if err := c.fails(); err != nil {
			return err
		}
	}
	return c.Store.RequestResignation(ctx, election, token)
}

// TestOperatorDies after each of its requests: the election goes on with one leader, and all stand again.
func TestOperatorDies(t *testing.T) {
	dead := errors.New("the operator's process was killed")
	for requests := range 5 {
		virtual(t, 5, func(w *world) {
			list := w.settle()
			w.ledBy()
			left := requests
			st := &changed{Store: w.operator, fails: func() error {
				if left--; left < 0 {
					return dead
				}
				return nil
			}}
			target := list[4]
			_, err := operate.SwitchOver(context.Background(), st, election, target.Token)
			if requests == 4 { // three waiters and the leader
				require.NoError(w, err)
				require.Equal(w, []string{target.Value}, w.ledBy())
				return
			}
			require.ErrorIs(w, err, dead)
			time.Sleep(ttl)
			now := w.settle()
			require.Empty(w, w.ledBy(), "the leader was not asked")
			require.Equal(w, list[0], now[0])
			_, err = operate.SwitchOver(context.Background(), w.operator, election, target.Token)
			require.NoError(w, err, "it can be done again")
			require.Equal(w, []string{target.Value}, w.ledBy())
		})
	}
}

// TestTargetGoes before the leader is asked: the leader is not touched.
func TestTargetGoes(t *testing.T) {
	virtual(t, 4, func(w *world) {
		list := w.settle()
		w.ledBy()
		asked := false
		st := &changed{Store: w.operator, fails: func() error {
			if !asked {
				asked = true
				w.service.Delete(election, list[3].Token)
			}
			return nil
		}}
		_, err := operate.SwitchOver(context.Background(), st, election, list[3].Token)
		require.ErrorIs(w, err, operate.ErrTargetGone)
		require.Empty(w, w.ledBy())
		require.Equal(w, list[0], w.settle()[0])
	})
}

// TestTargetGoesAfterTheLeader was asked: another one leads, and the error says so.
func TestTargetGoesAfterTheLeader(t *testing.T) {
	virtual(t, 3, func(w *world) {
		list := w.settle()
		w.ledBy()
		requests := 0
		st := &changed{Store: w.operator, fails: func() error {
			if requests++; requests == 2 {
				w.service.Delete(election, list[2].Token)
			}
			return nil
		}}
		_, err := operate.SwitchOver(context.Background(), st, election, list[2].Token)
		require.ErrorIs(w, err, operate.ErrNotDone)
		require.NotEqual(w, list[0].Token, w.settle()[0].Token)
	})
}

// TestLeaderDiesMeanwhile: the target leads when the leader's session has expired.
func TestLeaderDiesMeanwhile(t *testing.T) {
	for name, when := range map[string]int{"before the waiters are asked": 1, "before it is asked": 3} {
		t.Run(name, func(t *testing.T) {
			virtual(t, 4, func(w *world) {
				list := w.settle()
				w.ledBy()
				requests := 0
				st := &changed{Store: w.operator, fails: func() error {
					if requests++; requests == when {
						w.stores[list[0].Value].Faults().Cut()
					}
					return nil
				}}
				o, err := operate.SwitchOver(context.Background(), st, election, list[3].Token)
				require.NoError(w, err)
				require.Equal(w, []string{list[3].Value}, w.ledBy())
				require.LessOrEqual(w, o.Took, ttl+time.Second)
				w.stores[list[0].Value].Faults().Heal()
			})
		})
	}
}

// TestLeaderGoesMeanwhile: the target leads by then, and is not asked to resign.
func TestLeaderGoesMeanwhile(t *testing.T) {
	virtual(t, 3, func(w *world) {
		list := w.settle()
		w.ledBy()
		st := &changed{Store: w.operator, fails: func() error {
			w.service.Delete(election, list[1].Token)
			w.all[list[0].Value].Resign()
			synctest.Wait()
			return nil
		}}
		_, err := operate.SwitchOver(context.Background(), st, election, list[2].Token)
		require.NoError(w, err)
		require.Equal(w, []string{list[2].Value}, w.ledBy())
		time.Sleep(ttl)
		require.True(w, w.all[list[2].Value].IsLeader())
		require.Empty(w, w.ledBy())
	})
}

// TestWaiterThatDoesNotGiveWay, since it hangs: the operator goes on after a TTL. If it leads, it gives way then.
func TestWaiterThatDoesNotGiveWay(t *testing.T) {
	virtual(t, 1, func(w *world) {
		st := w.open()
		ballot, err := st.Cast(context.Background(), election, "hangs")
		require.NoError(w, err)
		w.add("target")
		w.ledBy()
		done := make(chan error, 1)
		go func() {
			_, err := operate.SwitchOver(context.Background(), w.operator, election, w.queue()[2].Token)
			done <- err
		}()
		time.Sleep(ttl - time.Second)
		synctest.Wait()
		require.True(w, w.all["c0"].IsLeader())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.False(w, w.all["c0"].IsLeader())
		require.ErrorIs(w, ballot.Wait(context.Background()), store.ErrRequested)
		require.NoError(w, ballot.Withdraw(context.Background()))
		require.NoError(w, <-done)
		require.Equal(w, []string{"target"}, w.ledBy())
	})
}

// TestTwoOperators: the target that is further back leads in the end, and no two at once.
func TestTwoOperators(t *testing.T) {
	virtual(t, 6, func(w *world) {
		for range 20 {
			list := w.settle()
			w.ledBy()
			var both sync.WaitGroup
			for _, target := range []store.Standing{list[3], list[5]} {
				both.Go(func() {
					ctx, cancel := context.WithTimeout(context.Background(), ttl)
					defer cancel()
					_, _ = operate.SwitchOver(ctx, w.operator, election, target.Token)
				})
			}
			both.Wait()
			led := w.ledBy()
			require.NotEmpty(w, led)
			require.Equal(w, list[5].Value, led[len(led)-1])
		}
	})
}

func TestStepDown(t *testing.T) {
	virtual(t, 2, func(w *world) {
		for range 20 {
			list := w.settle()
			w.ledBy()
			o, err := operate.StepDown(context.Background(), w.operator, election, list[0].Token)
			require.NoError(w, err)
			require.Equal(w, list[1].Token, o.After.Ballots[0].Token)
			require.Equal(w, []string{list[1].Value}, w.ledBy())
		}
	})
	virtual(t, 1, func(w *world) { // no other stands: it leads again
		list := w.settle()
		o, err := operate.StepDown(context.Background(), w.operator, election, list[0].Token)
		require.NoError(w, err)
		require.Greater(w, o.After.Ballots[0].Token, list[0].Token)
	})
}

// TestLastTargetGoes: the leader has gone, and then the target goes too. There is no other, and so no change of the leader.
func TestLastTargetGoes(t *testing.T) {
	virtual(t, 0, func(w *world) {
		st := w.open()
		leader, err := st.Cast(context.Background(), election, "leader")
		require.NoError(w, err)
		require.NoError(w, leader.Wait(context.Background()))
		_, err = leader.Acknowledge(context.Background(), "leader")
		require.NoError(w, err)
		target, err := st.Cast(context.Background(), election, "hangs")
		require.NoError(w, err)
		go func() {
			<-leader.ResignationRequested()
			_ = leader.Withdraw(context.Background())
			time.Sleep(time.Minute)
			_ = target.Withdraw(context.Background())
		}()
		began := time.Now()
		_, err = operate.SwitchOver(context.Background(), w.operator, election, target.Token())
		require.ErrorIs(w, err, operate.ErrNotDone)
		require.LessOrEqual(w, time.Since(began), time.Minute+w.operator.TTL())
	})
}

// TestContextEnds: the request stands, and the error says what was not done.
func TestContextEnds(t *testing.T) {
	virtual(t, 0, func(w *world) {
		st := w.open()
		ballot, err := st.Cast(context.Background(), election, "hangs")
		require.NoError(w, err)
		require.NoError(w, ballot.Wait(context.Background()))
		_, err = ballot.Acknowledge(context.Background(), "hangs")
		require.NoError(w, err)
		w.add("next")
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		o, err := operate.StepDown(ctx, w.operator, election, ballot.Token())
		require.ErrorIs(w, err, operate.ErrNotDone)
		require.ErrorIs(w, err, context.DeadlineExceeded)
		require.Equal(w, time.Second, o.Took)
		require.True(w, w.queue()[0].Asked)
		require.NoError(w, ballot.Withdraw(context.Background()))
		w.settle()
	})
}

// TestWaiterGoesWhileTheLeaderHangs: the leader is asked and does not resign, and the target goes. No change of the
// leader tells that.
func TestWaiterGoesWhileTheLeaderHangs(t *testing.T) {
	virtual(t, 0, func(w *world) {
		leader, waiter := w.open(), w.open()
		a, err := leader.Cast(context.Background(), election, "a")
		require.NoError(t, err)
		require.NoError(t, a.Wait(context.Background()))
		_, err = a.Acknowledge(context.Background(), "a")
		require.NoError(t, err)
		b, err := waiter.Cast(context.Background(), election, "b")
		require.NoError(t, err)
		ended := make(chan error, 1)
		began := time.Now()
		go func() {
			_, err := operate.SwitchOver(context.Background(), w.operator, election, b.Token())
			ended <- err
		}()
		time.Sleep(time.Second)
		synctest.Wait()
		require.NoError(t, b.Withdraw(context.Background()))
		err = <-ended
		require.ErrorIs(t, err, operate.ErrNotDone)
		require.ErrorContains(t, err, "has gone")
		require.Less(t, time.Since(began), 2*ttl)
	})
}

// TestStoreIsClosedMeanwhile: an error that trying again can't cure ends the wait at once.
func TestStoreIsClosedMeanwhile(t *testing.T) {
	virtual(t, 0, func(w *world) {
		a, err := w.open().Cast(context.Background(), election, "a")
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			_, err := operate.StepDown(ctx, w.operator, election, a.Token())
			ended <- err
		}()
		time.Sleep(time.Second)
		synctest.Wait()
		require.NoError(t, w.operator.Close())
		require.ErrorIs(t, <-ended, store.ErrClosed)
		require.NoError(t, ctx.Err())
	})
}

// unavailable is a store whose reads of queues fail at once, for a while.
type unavailable struct {
	store.Store
	reads int
}

func (u *unavailable) Ballots(ctx context.Context, election string) ([]store.Standing, error) {
	if u.reads++; u.reads > 2 && u.reads <= 12 { // not those before the request
		return nil, store.ErrUnavailable
	}
	return u.Store.Ballots(ctx, election)
}

// TestStoreIsUnavailableMeanwhile: the wait goes on, and does not ask all the time.
func TestStoreIsUnavailableMeanwhile(t *testing.T) {
	virtual(t, 2, func(w *world) {
		began := time.Now()
		_, err := operate.StepDown(context.Background(), &unavailable{Store: w.operator}, election, w.settle()[0].Token)
		require.NoError(w, err)
		require.GreaterOrEqual(w, time.Since(began), time.Second)
	})
}

// far is a store whose requests take a while.
type far struct {
	store.Store
	reads int
}

func (f *far) Observe(ctx context.Context, election string, prev *store.Known) (store.Known, error) {
	if prev == nil {
		f.reads++
		time.Sleep(time.Millisecond)
	}
	return f.Store.Observe(ctx, election, prev)
}

// TestWaitIsIdle: while nothing changes, StepDown asks a few times in a TTL. Its own reads do not wake it up.
func TestWaitIsIdle(t *testing.T) {
	virtual(t, 0, func(w *world) {
		a, err := w.open().Cast(context.Background(), election, "a")
		require.NoError(w, err)
		ctx, cancel := context.WithTimeout(context.Background(), 10*ttl)
		defer cancel()
		st := &far{Store: w.operator}
		_, err = operate.StepDown(ctx, st, election, a.Token())
		require.ErrorIs(w, err, operate.ErrNotDone)
		require.Less(w, st.reads, 10*10)
	})
}
