package engine

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

func TestWaitReturnsWhenFirst(t *testing.T) {
	playWaiting(t, behind, func(t *testing.T, s *scene, b *ballot, _, prev *request) {
		waiting := s.wait(b)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errDisk)
		require.False(t, waiting.returned())
		prev.goes()
		waiting.succeeds(t)
		for range 50 { // select is random
			require.ErrorIs(t, b.Wait(ctx), errDisk, "also if it is first")
		}
	})
}

// TestWaitOfABallotThatIsFirstAndLost: Wait returns that it is lost.
func TestWaitOfABallotThatIsFirstAndLost(t *testing.T) {
	playLeading(t, func(t *testing.T, s *scene, b *ballot, own *request) {
		own.goes()
		for range 50 { // select is random
			require.ErrorIs(t, b.Wait(t.Context()), store.ErrLost)
		}
	})
}

func TestWaitEndsWithItsContextOrItsBallot(t *testing.T) {
	playWaiting(t, behind, func(t *testing.T, s *scene, b *ballot, own, _ *request) {
		ctx, cancel := context.WithCancelCause(t.Context())
		impatient := start(func() (struct{}, error) { return struct{}{}, b.Wait(ctx) })
		patient := s.wait(b)
		cancel(errDisk)
		impatient.fails(t, errDisk)
		own.goes()
		require.True(t, patient.returned())
		require.EqualError(t, patient.err, `stand in election "x" on test://: ballot lost: it was removed`)
	})
}

func TestAcknowledge(t *testing.T) {
	playLeading(t, func(t *testing.T, s *scene, b *ballot, _ *request) {
		c := s.acknowledge(b)
		r := s.next("Acknowledge")
		require.Equal(t, "own1 value", r.key+" "+r.value)
		r.answer(answer{revision: 9})
		c.succeeds(t)
		require.Equal(t, store.Leader{Value: "value", Revision: 9}, c.value)
		again := s.acknowledge(b)
		s.next("Acknowledge").fail(errLater)
		again.fails(t, store.ErrUnknownOutcome)
		s.withdraw(t.Context(), b)
		r = s.next("Remove")
		require.True(t, r.removal.Led && r.removal.Acknowledged)
		require.Equal(t, uint64(9), r.removal.Revision)
	})
}

// TestAcknowledgeBeforeWaitIsRefused, also if the ballot is first.
func TestAcknowledgeBeforeWaitIsRefused(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		b := s.cast(1, Place{})
		s.next("Entry").shows(State{Token: 1})
		_, err := b.Acknowledge(t.Context(), "value")
		require.ErrorIs(t, err, store.ErrNotFirst)
		require.NoError(t, b.Wait(t.Context()))
		_, err = b.Acknowledge(t.Context(), strings.Repeat("x", store.MaxValue+1))
		require.ErrorIs(t, err, store.ErrInvalid)
		s.withdraw(t.Context(), b)
		require.False(t, s.next("Remove").removal.Acknowledged, "nothing was sent")
	})
}

func TestAcknowledgeLearnsThatTheBallotIsLost(t *testing.T) {
	playLeading(t, func(t *testing.T, s *scene, b *ballot, _ *request) {
		c := s.acknowledge(b)
		s.next("Acknowledge").fail(ErrGone)
		c.fails(t, store.ErrLost)
		require.True(t, b.isLost())
		_, err := b.Acknowledge(t.Context(), "value")
		require.ErrorIs(t, err, store.ErrLost)
		s.quiet()
	})
}

// TestAcknowledgeEndsWithItsBallot: its outcome is unknown, and the removal takes that into account.
func TestAcknowledgeEndsWithItsBallot(t *testing.T) {
	playLeading(t, func(t *testing.T, s *scene, b *ballot, _ *request) {
		c := s.acknowledge(b)
		s.next("Acknowledge")
		s.withdraw(t.Context(), b)
		c.fails(t, store.ErrLost)
		require.ErrorIs(t, c.err, store.ErrUnknownOutcome)
		require.True(t, s.next("Remove").removal.Acknowledged)
	})
}

// TestAcknowledgeWhileTheBallotIsWithdrawn is not sent: the removal might not know of it.
func TestAcknowledgeWhileTheBallotIsWithdrawn(t *testing.T) {
	playLeading(t, func(t *testing.T, s *scene, b *ballot, _ *request) {
		s.withdraw(t.Context(), b)
		s.next("Remove")
		require.ErrorIs(t, b.try(), store.ErrLost)
		_, err := b.Acknowledge(t.Context(), "value")
		require.ErrorIs(t, err, store.ErrLost)
		require.Zero(t, s.count("Acknowledge"))
	})
}

// TestRevisionNeverGoesBack: answers to two requests may come in any order.
func TestRevisionNeverGoesBack(t *testing.T) {
	playLeading(t, func(t *testing.T, s *scene, b *ballot, _ *request) {
		s.acknowledge(b)
		first := s.next("Acknowledge")
		s.acknowledge(b)
		first.driver.take(first)
		s.next("Acknowledge").answer(answer{revision: 9})
		first.answer(answer{revision: 8})
		require.Equal(t, uint64(9), b.removal().Revision)
	})
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

// TestWithdrawThatFindsTheSessionOver succeeds: the entry has ended with the session.
func TestWithdrawThatFindsTheSessionOver(t *testing.T) {
	playLeading(t, func(t *testing.T, s *scene, b *ballot, _ *request) {
		c := s.withdraw(t.Context(), b)
		s.next("Remove").fail(ErrOver)
		c.succeeds(t)
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

// TestWithdrawGoesOnInTheBackground, once. The calls that are cut short say that the outcome is unknown.
func TestWithdrawGoesOnInTheBackground(t *testing.T) {
	playLeading(t, func(t *testing.T, s *scene, b *ballot, _ *request) {
		ctx, cancel := context.WithCancelCause(t.Context())
		one, two := s.withdraw(ctx, b), s.withdraw(ctx, b)
		cancel(errDisk)
		require.True(t, one.returned() && two.returned())
		require.ErrorIs(t, one.err, errDisk)
		require.ErrorIs(t, one.err, store.ErrUnknownOutcome)
		require.Equal(t, 1, s.count("Remove"))
		s.next("Remove").fail(errLater)
		time.Sleep(50 * time.Millisecond)
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
		other := s.cast(2, Place{})
		s.next("Entry").shows(State{Token: 2})
		require.NoError(t, other.Wait(t.Context()))
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

// TestResignationRequested: the ballot's watch reports it, at once or later, and only once.
func TestResignationRequested(t *testing.T) {
	playLeading(t, func(t *testing.T, s *scene, b *ballot, own *request) {
		require.Empty(t, b.ResignationRequested())
		select {
		case <-b.ResignationRequested():
			require.Fail(t, "not asked")
		default:
		}
		for range 2 {
			own.tells(News{State: &State{Token: 1, Resign: true}})
			<-b.ResignationRequested()
		}
		require.False(t, b.isLost(), "its owner resigns in order")
		s.quiet()

		b = s.cast(2, Place{})
		s.next("Entry").shows(State{Token: 2, Resign: true})
		<-b.ResignationRequested()
	})
}

// TestRequestResignation is sent until it is answered.
func TestRequestResignation(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		require.ErrorIs(t, s.Engine.RequestResignation(t.Context(), "", 7), store.ErrInvalid)
		c := start(func() (struct{}, error) { return struct{}{}, s.Engine.RequestResignation(t.Context(), "x", 7) })
		s.next("RequestResignation").fail(errLater)
		time.Sleep(50 * time.Millisecond)
		r := s.next("RequestResignation")
		require.Equal(t, "x 7", r.election+" "+r.key)
		r.answer(answer{})
		c.succeeds(t)
		c = start(func() (struct{}, error) { return struct{}{}, s.Engine.RequestResignation(t.Context(), "x", 7) })
		s.next("RequestResignation").fail(store.ErrDenied)
		require.True(t, c.returned())
		require.EqualError(t, c.err, `request the resignation in election "x" on test://: permission denied`)
	})
}

// TestLeaderWhoseWatchIsRefused keeps its entry until its owner gives it back, since the leader's work has to stop
// first. The entry of a waiting ballot is removed at once.
func TestLeaderWhoseWatchIsRefused(t *testing.T) {
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
	playWaiting(t, behind, func(t *testing.T, s *scene, _ *ballot, own, _ *request) {
		own.tells(News{Over: true})
		s.next("Entry").fail(store.ErrDenied)
		s.next("Remove").answer(answer{})
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

// TestWithdrawAfterTheSessionWasGivenUp because there were no answers does not wait for one: nothing is sent any more.
func TestWithdrawAfterTheSessionWasGivenUp(t *testing.T) {
	playLeading(t, func(t *testing.T, s *scene, b *ballot, _ *request) {
		s.session.ends(errLater)
		c := s.withdraw(t.Context(), b)
		require.True(t, c.returned(), "at once")
		require.ErrorIs(t, c.err, errLater, "it might stand")
	})
}

// TestWithdrawAfterTheEndOfASession that was given up succeeds if the service has confirmed the end: the entry is gone.
func TestWithdrawAfterTheEndOfASession(t *testing.T) {
	for _, confirmed := range []bool{true, false} {
		var log strings.Builder
		play(t, Settings{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(t *testing.T, s *scene) {
			b := s.cast(1, Place{})
			s.next("Entry").shows(State{Token: 1, Session: s.scripted.session.ID()})
			s.session.ends(errDisk)
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

// TestWithdrawAfterARefusal succeeds once the session has ended, which took the entry along.
func TestWithdrawAfterARefusal(t *testing.T) {
	playLeading(t, func(t *testing.T, s *scene, b *ballot, _ *request) {
		c := s.withdraw(t.Context(), b)
		s.next("Remove").fail(store.ErrDenied)
		c.fails(t, store.ErrDenied)
		s.next("End").answer(answer{})
		require.NoError(t, b.Withdraw(t.Context()))
	})
}

// TestAcknowledgeSaysThatItsBallotIsLost, also if the driver's error does not.
func TestAcknowledgeSaysThatItsBallotIsLost(t *testing.T) {
	playLeading(t, func(t *testing.T, s *scene, b *ballot, own *request) {
		s.deaf.Store(true)
		c := s.acknowledge(b)
		own.goes()
		s.next("Acknowledge").fail(errLater)
		c.fails(t, store.ErrLost)
		require.ErrorIs(t, c.err, store.ErrUnknownOutcome)
		s.deaf.Store(false)
	})
}

// TestWatchThatIsRefusedWhileTheBallotIsWithdrawn: the removal that is under way is enough.
func TestWatchThatIsRefusedWhileTheBallotIsWithdrawn(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		b := s.cast(7, behind)
		entry := s.next("Entry")
		s.deaf.Store(true)
		s.withdraw(t.Context(), b)
		entry.fail(store.ErrDenied)
		require.Equal(t, 1, s.count("Remove"))
		s.deaf.Store(false)
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
		late.succeeds(t)
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
		late.succeeds(t)
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
		one.succeeds(t)
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
		one.fails(t, store.ErrLost)
	})
}
