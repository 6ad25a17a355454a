package engine

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// TestKnownWhileItIsReadAnew: while a resync has no answer, what its old watches tell counts. So the ballot is first as soon as
// the nearest has gone, and no request is sent for that.
func TestKnownWhileItIsReadAnew(t *testing.T) {
	for _, held := range []string{"other", "own7"} {
		t.Run(held, func(t *testing.T) {
			play(t, Settings{}, func(t *testing.T, s *scene) {
				b, _, prev := s.waitingBehind(behind)
				time.Sleep(pace)
				read := s.next("Entry")
				if held == "own7" {
					prev = read.shows(other)
					read = s.next("Entry")
				}
				require.Equal(t, held, read.key)
				prev.tell(News{State: &State{}})
				require.True(t, closed(b.first), "within the call, so without a request")
				synctest.Wait()
				require.Error(t, read.ctx.Err(), "the read says nothing more")
			})
		})
	}
}

// TestReadThatIsOvertaken: the nearest goes while the own entry is read, on another stream. That read was sent before, and says
// too little: the next one is sent at once, and before all others that wait.
func TestReadThatIsOvertaken(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		b, _, prev := s.waitingBehind(behind, 0)
		time.Sleep(pace)
		before := s.next("Entry")
		prev.goes()
		require.Error(t, before.ctx.Err())
		own := s.next("Entry")
		require.Equal(t, "own7", own.key)
		own.shows(State{Token: 7}, 0)
		require.True(t, b.isFirst())
	})
}

// TestPauseEndsWithNews: a ballot whose read has failed pauses, and goes on at once when the nearest goes.
func TestPauseEndsWithNews(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		b, _, prev := s.waitingBehind(behind, 0)
		time.Sleep(pace)
		s.next("Entry").fail(Answered(errLater))
		s.quiet()
		prev.goes()
		s.next("Entry").shows(State{Token: 7}, 0)
		require.True(t, b.isFirst())
	})
}

// TestTermNeedsALeaseThatARenewalReaches: a ballot whose lease would end before the next renewal can arrive is not told
// that it is first until a renewal has come.
func TestTermNeedsALeaseThatARenewalReaches(t *testing.T) {
	const trip = ttl / 5
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.casting(t.Context(), "y")
		s.next("Open")
		time.Sleep(trip) // what opening the session proves is as old as that
		s.next("Open").answer(answer{})
		s.next("Enter").answer(entered(1, Place{}))
		s.next("Entry").shows(State{Token: 1})
		b := s.cast(2, Place{})
		s.next("Entry").shows(State{Token: 2})
		require.NoError(t, b.Wait(t.Context()), "another round trip fits into the lease")

		time.Sleep(b.Lease().Remaining() - trip + time.Nanosecond)
		late := s.wait(b)
		require.False(t, late.returned(), "a renewal that is sent now comes too late")
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		require.ErrorIs(t, b.Wait(ctx), context.DeadlineExceeded)
		sent := store.Now()
		time.Sleep(trip / 2)
		s.session.renew(Proof{Sent: sent, Valid: ttl * 2 / 3})
		require.True(t, late.returned())
		require.NoError(t, late.err)
		time.Sleep(b.Lease().Remaining() - time.Nanosecond)
		require.NoError(t, b.Wait(t.Context()), "renewals reach it")
		require.True(t, s.holds(b))

		time.Sleep(time.Nanosecond) // the lease ends, and the next one begins with what is left of a late renewal
		sent = store.Now()
		time.Sleep(trip * 2)
		s.session.renew(Proof{Sent: sent, Valid: trip * 3})
		late = s.wait(b)
		require.False(t, late.returned())
		s.session.renew(Proof{Sent: store.Now(), Valid: ttl})
		require.True(t, late.returned())
		require.NoError(t, late.err)
	})
}

// TestWaitWithoutALease: that the lease has ended is the caller's to look at; and a ballot that is lost meanwhile is lost.
func TestWaitWithoutALease(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.casting(t.Context(), "y")
		s.next("Open")
		time.Sleep(ttl / 2)
		s.next("Open").answer(answer{})
		s.find("Enter").fail(store.ErrDenied)
		b := s.cast(1, Place{})
		own := s.find("Entry").shows(State{Token: 1})
		one := s.wait(b)
		require.False(t, one.returned())
		time.Sleep(b.Lease().Remaining())
		require.True(t, one.returned())
		require.NoError(t, one.err)
		s.session.renew(Proof{Sent: store.Now(), Valid: ttl})
		require.NoError(t, b.Wait(t.Context()))
		own.goes()
		require.ErrorIs(t, b.Wait(t.Context()), store.ErrLost)
	})
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.casting(t.Context(), "y")
		s.next("Open")
		time.Sleep(ttl / 2)
		s.next("Open").answer(answer{})
		s.find("Enter").fail(store.ErrDenied)
		b := s.cast(1, Place{})
		own := s.find("Entry").shows(State{Token: 1})
		one := s.wait(b)
		own.goes()
		require.True(t, one.returned())
		require.ErrorIs(t, one.err, store.ErrLost)
	})
}

// TestSilentWatchIsReadInItsTurn: with N things to read, within N paces, however many ballots come and go meanwhile.
func TestSilentWatchIsReadInItsTurn(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.leading(1)
		s.leading(2)
		s.waitingBehind(behind) // its watches are silent from now on
		read := 0
		for i := range 20 {
			token := uint64(100 + i)
			short, _ := s.leading(token)
			time.Sleep(pace)
			for s.count("Entry") > 0 {
				r := s.find("Entry")
				switch r.key {
				case "other":
					read++
					r.shows(other)
				default:
					var token uint64
					_, err := fmt.Sscanf(r.key, "own%d", &token)
					require.NoError(t, err)
					r.shows(State{Token: token})
				}
			}
			s.withdraw(t.Context(), short)
			s.find("Remove").answer(answer{})
		}
		require.GreaterOrEqual(t, read, 4, "20 paces, and 4 to read at most at once")
	})
}

// TestPauseHoldsNoPlace: reads that have failed pause, and as many others go on meanwhile.
func TestPauseHoldsNoPlace(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		for i := range places {
			s.cast(uint64(i+1), Place{})
		}
		require.Equal(t, places, s.count("Entry"))
		for range places {
			s.find("Entry").fail(Answered(errLater))
		}
		s.cast(100, Place{})
		require.Equal(t, 1, s.count("Entry"))
	})
}

// TestBallotThatMightLeadGoesFirst, before all reads that wait for a place.
func TestBallotThatMightLeadGoesFirst(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		_, _, prev := s.waitingBehind(Place{Nearest: "other", More: true})
		for i := range 2 * places {
			go func() { _, _ = s.Observe(t.Context(), fmt.Sprint("y", i), nil) }()
		}
		require.Equal(t, places, s.count("Leader"))
		next := func(op string) *request {
			require.Zero(t, s.count(op))
			s.find("Leader").shows(State{})
			require.Equal(t, 1, s.count(op))
			require.Equal(t, places-1, s.count("Leader"))
			return s.find(op)
		}
		prev.tells(News{Over: true}) // it might have gone
		prev = next("Entry").shows(other)
		prev.goes()
		next("Ahead")
	})
}

// TestObserveNeverGoesBack: an observation that was dropped and made again knows an earlier time at first. A caller who knows
// a later one is not told that, whoever leads.
func TestObserveNeverGoesBack(t *testing.T) {
	for _, leader := range []store.Leader{one, two} {
		play(t, Settings{}, func(t *testing.T, s *scene) {
			began := time.Now()
			watch := s.watched()
			if leader != one {
				watch.tells(News{State: &State{Leader: leader}})
			}
			prev := store.Known{Leader: one, AsOf: began.Add(time.Second)} // from the observation before
			time.Sleep(2 * time.Second)
			c := s.observe(&prev)
			require.False(t, c.returned())
			s.next("Leader").shows(State{Leader: leader})
			require.True(t, c.returned())
			require.Equal(t, store.Known{Leader: leader, AsOf: time.Now()}, c.value)
			s.quiet()
		})
	}
}

// TestPlaceOfARequestThatHasGone is given back, also if the request was let through at the moment at which it went.
func TestPlaceOfARequestThatHasGone(t *testing.T) {
	for range 50 { // select is random
		synctest.Test(t, func(t *testing.T) {
			g := &gate{taken: places}
			ctx, cancel := context.WithCancel(t.Context())
			var err error
			go func() { err = g.enter(ctx, reads) }()
			synctest.Wait()
			g.mu.Lock()
			cancel()
			g.give(reads)
			g.mu.Unlock()
			synctest.Wait()
			if err == nil {
				g.leave(reads)
			} else {
				require.ErrorIs(t, err, store.ErrUnavailable)
			}
			require.Equal(t, places-1, g.taken)
		})
	}
}
