package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// TestWait ends when the ballot is first, or lost, or with its context.
func TestWait(t *testing.T) {
	playWaiting(t, behind, func(t *testing.T, s *scene, b *ballot, own, prev *request) {
		ctx, cancel := context.WithCancelCause(t.Context())
		impatient := start(func() (struct{}, error) { return struct{}{}, b.Wait(ctx) })
		patient := s.wait(b)
		cancel(errDisk)
		impatient.fails(t, errDisk)
		require.False(t, patient.returned())
		prev.goes()
		patient.succeeds(t)
		for range 50 { // select is random
			require.ErrorIs(t, b.Wait(ctx), errDisk, "even if it is first")
		}
		own.goes()
		for range 50 {
			require.EqualError(t, b.Wait(t.Context()), `stand in election "x" on test://: ballot lost: it was removed`, "even if it was first")
		}
	})
	playWaiting(t, behind, func(t *testing.T, s *scene, b *ballot, own, _ *request) {
		c := s.wait(b)
		own.goes()
		c.fails(t, store.ErrLost)
	})
}

// TestAcknowledge: it needs a Wait that has returned nil. What was sent may have been carried out.
func TestAcknowledge(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		b := s.cast(1, Place{})
		s.next("Entry").shows(State{Token: 1})
		_, err := b.Acknowledge(t.Context(), "value")
		require.ErrorIs(t, err, store.ErrNotFirst, "even if it is first")
		s.quiet()
		require.NoError(t, b.Wait(t.Context()))
		_, err = b.Acknowledge(t.Context(), string(make([]byte, store.MaxValue+1)))
		require.ErrorIs(t, err, store.ErrInvalid)
		require.False(t, b.removal().Acknowledged, "nothing was sent")

		c := s.acknowledge(b)
		r := s.next("Acknowledge")
		require.Equal(t, "own1 value", r.key+" "+r.value)
		r.answer(answer{revision: 9})
		c.succeeds(t)
		require.Equal(t, store.Leader{Value: "value", Revision: 9}, c.value)
		first := s.acknowledge(b)
		r = s.next("Acknowledge")
		second := s.acknowledge(b)
		r.driver.take(r)
		s.next("Acknowledge").answer(answer{revision: 11})
		second.succeeds(t)
		r.answer(answer{revision: 10}) // answers come in any order
		first.succeeds(t)
		c = s.acknowledge(b)
		s.next("Acknowledge").fail(errLater)
		c.fails(t, store.ErrUnknownOutcome)
		s.withdraw(t.Context(), b)
		removal := s.next("Remove").removal
		require.True(t, removal.Led && removal.Acknowledged)
		require.Equal(t, uint64(11), removal.Revision)
	})
}

// TestAcknowledgeOfALostBallot says that the ballot is lost, even if the driver's error does not. If the ballot is lost
// while the request is under way, the outcome is unknown. After that nothing is sent: a removal might not know of it.
func TestAcknowledgeOfALostBallot(t *testing.T) {
	for name, lose := range map[string]func(s *scene, b *ballot, own *request){
		"gone":      func(s *scene, _ *ballot, _ *request) { s.next("Acknowledge").fail(ErrGone) },
		"withdrawn": func(s *scene, b *ballot, _ *request) { s.withdraw(s.Context(), b) },
		"late": func(s *scene, _ *ballot, own *request) {
			s.deaf.Store(true)
			own.goes()
			s.next("Acknowledge").fail(errLater)
			s.deaf.Store(false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			playLeading(t, func(t *testing.T, s *scene, b *ballot, own *request) {
				c := s.acknowledge(b)
				s.next("Acknowledge")
				lose(s, b, own)
				c.fails(t, store.ErrLost)
				if name != "gone" {
					require.ErrorIs(t, c.err, store.ErrUnknownOutcome)
				}
				require.True(t, b.removal().Acknowledged)
				require.ErrorIs(t, b.try(), store.ErrLost)
				_, err := b.Acknowledge(t.Context(), "value")
				require.ErrorIs(t, err, store.ErrLost)
				require.Zero(t, s.count("Acknowledge"))
			})
		})
	}
}

// TestWithdraw: the ballot is lost before the request is sent. The request is repeated until it is answered.
func TestWithdraw(t *testing.T) {
	playLeading(t, func(t *testing.T, s *scene, b *ballot, own *request) {
		sent := -1
		b.onLoss(func() { sent = len(s.all()) })
		c := s.withdraw(t.Context(), b)
		require.Zero(t, sent)
		require.EqualError(t, b.Err(), `stand in election "x" on test://: ballot lost: it was withdrawn`)
		s.next("Remove").fail(errLater)
		time.Sleep(50 * time.Millisecond)
		require.False(t, c.returned())
		s.next("Remove").answer(answer{})
		c.succeeds(t)
		require.True(t, own.isStopped())
		require.Empty(t, s.current.claims)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, b.Withdraw(ctx), "it is known to be gone")
		s.quiet()
	})
}

// TestWithdrawOfABallotThatWasEnteredTwice also voids it: the first request might be under way.
func TestWithdrawOfABallotThatWasEnteredTwice(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		c := s.casting(t.Context(), "x")
		s.next("Open").answer(answer{})
		s.next("Enter").fail(errLater)
		time.Sleep(50 * time.Millisecond)
		enter := s.next("Enter")
		enter.answer(entered(1, Place{}))
		s.next("Entry").shows(State{Token: 1})
		withdrawn := s.withdraw(t.Context(), c.value)
		s.next("Remove").fail(errLater)
		time.Sleep(50 * time.Millisecond)
		s.next("Remove").answer(answer{})
		void := s.next("Void")
		require.Equal(t, enter.nonce, void.nonce)
		require.False(t, withdrawn.returned())
		void.answer(answer{})
		withdrawn.succeeds(t)
	})
}

// TestWithdrawGoesOnInTheBackground, once. The calls that are cut short say that the outcome is unknown, even if the last
// request was not carried out: one before it might have been.
func TestWithdrawGoesOnInTheBackground(t *testing.T) {
	playLeading(t, func(t *testing.T, s *scene, b *ballot, _ *request) {
		for _, failure := range []error{nil, errLater, errUnsent} {
			ctx, cancel := context.WithCancelCause(t.Context())
			one, two := s.withdraw(ctx, b), s.withdraw(ctx, b)
			if failure != nil {
				s.next("Remove").fail(failure)
			}
			cancel(errDisk)
			require.True(t, one.returned() && two.returned())
			require.ErrorIs(t, one.err, errDisk)
			require.ErrorIs(t, one.err, store.ErrUnknownOutcome)
			time.Sleep(100 * time.Millisecond)
			require.Equal(t, 1, s.count("Remove"))
		}
		s.next("Remove").answer(answer{})
		s.quiet()
		require.NoError(t, b.Withdraw(t.Context()))
	})
}

// TestWithdrawOfAnEntryThatIsKnownToBeGone sends nothing, unless there might be an acknowledgement, or a leader's lock.
func TestWithdrawOfAnEntryThatIsKnownToBeGone(t *testing.T) {
	playWaiting(t, behind, func(t *testing.T, s *scene, b *ballot, own, prev *request) {
		own.goes()
		require.NoError(t, b.Withdraw(t.Context()))
		s.quiet()
		require.True(t, own.isStopped() && prev.isStopped())
		require.Empty(t, s.current.claims)

		twice, own, _ := s.waitingBehind(behind)
		twice.doubt = true
		own.goes()
		s.next("Remove").answer(answer{})
		s.next("Void").answer(answer{})

		led, own := s.leading(8)
		own.goes()
		s.withdraw(t.Context(), led)
		s.next("Remove")
	})
}

// TestAlone: no other ballot of this session and election that stands may have been acknowledged.
func TestAlone(t *testing.T) {
	playLeading(t, func(t *testing.T, s *scene, b *ballot, _ *request) {
		other, _ := s.leading(2)
		require.True(t, b.alone())
		s.acknowledge(other)
		s.next("Acknowledge").fail(errLater)
		require.False(t, b.alone())
		require.True(t, other.alone())
		other.entry.Election = "y"
		require.True(t, b.alone())
		other.entry.Election = "x"
		s.withdraw(t.Context(), other)
		require.True(t, b.alone())
	})
}

// TestWatchThatIsRefused costs the ballot. Its entry is removed, so that no other waits for it: at once, or when a leader's
// work has stopped and its owner gives the ballot back.
func TestWatchThatIsRefused(t *testing.T) {
	playLeading(t, func(t *testing.T, s *scene, b *ballot, own *request) {
		own.tells(News{Over: true})
		s.next("Entry").fail(store.ErrDenied)
		require.True(t, b.isLost())
		require.ErrorIs(t, b.Err(), store.ErrDenied)
		s.quiet()
		c := s.withdraw(t.Context(), b)
		s.next("Remove").answer(answer{})
		c.succeeds(t)
	})
	play(t, Settings{}, func(t *testing.T, s *scene) {
		b := s.cast(7, behind)
		s.next("Entry").fail(store.ErrDenied)
		require.True(t, b.isLost())
		require.ErrorIs(t, b.Err(), store.ErrLost)
		require.ErrorIs(t, b.Err(), store.ErrDenied)
		s.next("Remove").answer(answer{})
		s.quiet()
	})
}

// TestSessionThatIsGivenUpEndsAfterTheLeadersWork: it ends when the ballot's owner has given it back, after a TTL, or
// when the store is closed. The next session does not wait for that.
func TestSessionThatIsGivenUpEndsAfterTheLeadersWork(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, s *scene, b *ballot){
		"given back": func(t *testing.T, s *scene, b *ballot) {
			time.Sleep(time.Second)
			s.quiet()
			require.ErrorIs(t, b.Withdraw(t.Context()), errDisk)
		},
		"too late": func(t *testing.T, s *scene, b *ballot) {
			time.Sleep(ttl - time.Nanosecond)
			require.Zero(t, s.count("End"))
			time.Sleep(time.Nanosecond)
		},
		"closed": func(t *testing.T, s *scene, b *ballot) { go func() { _ = s.Engine.Close() }() },
	} {
		t.Run(name, func(t *testing.T) {
			play(t, Settings{Pace: time.Hour}, func(t *testing.T, s *scene) {
				b, _ := s.leading(1)
				s.cast(2, Place{Nearest: "own1"})
				s.next("Entry").shows(State{Token: 1, Session: s.scripted.session.ID()})
				s.next("Entry").shows(State{Token: 2, Session: s.scripted.session.ID()})
				s.scripted.session.ends(errDisk)
				require.True(t, b.isLost())
				require.False(t, s.holds(b))
				s.quiet()
				other := s.casting(t.Context(), "y")
				s.next("Open").answer(answer{})
				s.next("Enter").answer(entered(3, Place{}))
				other.succeeds(t)
				s.next("Entry").shows(State{Token: 3, Session: s.scripted.session.ID()})
				s.quiet()
				end(t, s, b)
				synctest.Wait()
				var ended []string
				for _, r := range s.all() { // if the store is closed, both sessions end
					ended = append(ended, r.op+" "+r.value)
					r.answer(answer{})
				}
				require.Contains(t, ended, "End 1")
			})
		})
	}
}

// TestWithdrawAfterTheEndOfASession that was given up waits for no answer: nothing is sent any more. It succeeds once the
// service has confirmed the end: the entry is gone.
func TestWithdrawAfterTheEndOfASession(t *testing.T) {
	for _, confirmed := range []bool{true, false} {
		var log lines
		play(t, log.settings(), func(t *testing.T, s *scene) {
			b := s.cast(1, Place{})
			s.next("Entry").shows(State{Token: 1, Session: s.scripted.session.ID()})
			s.session.ends(errDisk)
			require.ErrorIs(t, b.Withdraw(t.Context()), errDisk, "it might stand")
			end := s.next("End")
			if !confirmed {
				end.fail(store.ErrUnavailable)
				require.ErrorIs(t, b.Withdraw(t.Context()), errDisk, "it might stand")
				require.Contains(t, log.String(), "the end of the session is not confirmed")
				return
			}
			end.answer(answer{})
			require.NoError(t, b.Withdraw(t.Context()))
			require.Empty(t, log.String())
			require.ErrorIs(t, b.Err(), errDisk, "the first reason stays")
			s.quiet()
		})
	}
}

// TestTermNeedsALeaseThatARenewalReaches: a ballot whose lease would end before the next renewal can arrive is not told
// that it is first until a renewal has come. That the lease has ended is the caller's to look at.
func TestTermNeedsALeaseThatARenewalReaches(t *testing.T) {
	const trip = ttl / 5
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.casting(t.Context(), "y")
		s.next("Open")
		time.Sleep(trip) // what opening the session proves is as old as that
		s.next("Open").answer(answer{})
		s.next("Enter").fail(store.ErrDenied)
		b := s.cast(2, Place{})
		own := s.next("Entry").shows(State{Token: 2})
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
		late.succeeds(t)
		time.Sleep(b.Lease().Remaining() - time.Nanosecond)
		require.NoError(t, b.Wait(t.Context()), "renewals reach it")
		require.True(t, s.holds(b))

		time.Sleep(time.Nanosecond) // the lease ends, and the next one begins with what is left of a late renewal
		require.NoError(t, b.Wait(t.Context()))
		sent = store.Now()
		time.Sleep(trip * 2)
		s.session.renew(Proof{Sent: sent, Valid: trip * 3})
		late = s.wait(b)
		require.False(t, late.returned())
		s.session.renew(Proof{Sent: store.Now(), Valid: ttl})
		late.succeeds(t)

		time.Sleep(b.Lease().Remaining())
		sent = store.Now()
		time.Sleep(trip * 2)
		s.session.renew(Proof{Sent: sent, Valid: trip * 3})
		late = s.wait(b)
		require.False(t, late.returned())
		own.goes()
		late.fails(t, store.ErrLost)
	})
}
