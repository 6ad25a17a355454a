package engine

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/trouble"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

func TestEnterIsSentAgainWithTheSameNonce(t *testing.T) {
	for _, err := range []error{errLater, errUnsent} {
		playLeading(t, func(t *testing.T, s *scene, _ *ballot, _ *request) {
			c := s.casting(t.Context(), "x")
			first := s.next("Enter")
			require.Equal(t, "value", first.value)
			first.fail(err)
			time.Sleep(50 * time.Millisecond)
			again := s.next("Enter")
			require.Equal(t, first.nonce, again.nonce)
			again.answer(entered(2, Place{}))
			c.succeeds(t)
			require.Equal(t, uint64(2), c.value.Token())
		})
	}
}

func TestNoncesDiffer(t *testing.T) {
	playLeading(t, func(t *testing.T, s *scene, _ *ballot, _ *request) {
		names, slots := map[string]bool{}, map[int]uint64{}
		for range 3 * Slots {
			c := s.casting(t.Context(), "x")
			r := s.find("Enter")
			require.False(t, names[r.nonce.Name])
			require.Less(t, slots[r.nonce.Slot], r.nonce.Turn)
			names[r.nonce.Name], slots[r.nonce.Slot] = true, r.nonce.Turn
			r.fail(store.ErrInvalid)
			c.fails(t, store.ErrInvalid)
		}
		require.Len(t, slots, Slots)
		require.Equal(t, uint64(3), slots[Slots-1])
	})
}

// impatient starts a cast whose request is sent, and ends its context.
func (s *scene) impatient() (enter *request, c *call[store.Ballot]) {
	s.Helper()
	return s.impatientIn("x")
}

func (s *scene) impatientIn(election string) (enter *request, c *call[store.Ballot]) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	c = s.casting(ctx, election)
	if s.count("Open") > 0 {
		s.next("Open").answer(answer{})
	}
	enter = s.find("Enter")
	cancel()
	c.fails(s, context.Canceled)
	return enter, c
}

// TestImpatientCallerLeavesAnOrphan. The engine repeats Void until it is answered.
func TestImpatientCallerLeavesAnOrphan(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		enter, c := s.impatient()
		require.ErrorIs(t, c.err, store.ErrUnknownOutcome)
		void := s.next("Void")
		require.Equal(t, enter.nonce, void.nonce)
		require.Equal(t, "x", void.election)
		void.fail(errLater)
		s.quiet()
		time.Sleep(50 * time.Millisecond)
		require.Len(t, s.slots, Slots-1)
		s.next("Void").answer(answer{})
		s.quiet()
		require.Len(t, s.slots, Slots)
		require.Empty(t, s.current.claims)
	})
}

// TestErrorOfAnEndedContext that shows nothing about the request counts as an unknown outcome.
func TestErrorOfAnEndedContext(t *testing.T) {
	for err, voids := range map[error]int{context.Canceled: 1, errUnsent: 0} {
		play(t, Settings{}, func(t *testing.T, s *scene) {
			ctx, cancel := context.WithCancel(t.Context())
			c := s.casting(ctx, "x")
			s.next("Open").answer(answer{})
			s.deaf.Store(true)
			cancel()
			s.next("Enter").fail(err)
			c.fails(t, context.Canceled)
			require.Equal(t, voids, s.count("Void"))
			s.deaf.Store(false)
		})
	}
}

// TestTroubleOfACast: the caller hears at once of each request that has no answer, and of an outage that goes on, until Cast
// returns.
func TestTroubleOfACast(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		var heard, later []error
		c := s.casting(trouble.With(t.Context(), func(err error) { heard = append(heard, err) }), "x")
		require.Empty(t, heard)
		s.next("Open").fail(errUnsent)
		synctest.Wait()
		require.Len(t, heard, 1)
		require.ErrorIs(t, heard[0], store.ErrUnavailable)
		require.EqualError(t, heard[0], `cast in election "x" on test://: service unavailable: no connection`)

		ctx, cancel := context.WithCancel(trouble.With(t.Context(), func(err error) { later = append(later, err) }))
		impatient := s.casting(ctx, "y")
		require.Len(t, later, 1, "it goes on")
		cancel()
		impatient.fails(t, context.Canceled)
		time.Sleep(time.Second)
		s.next("Open").fail(errUnsent)
		synctest.Wait()
		require.Len(t, heard, 2)
		require.Len(t, later, 1, "the call has returned")

		time.Sleep(time.Second)
		s.next("Open").answer(answer{})
		s.next("Enter").answer(entered(1, Place{}))
		c.succeeds(t)
		require.Len(t, heard, 2)
		require.Empty(t, s.Engine.gate.reports)
	})
}

// TestWhatWasNotSentLeavesWithItsCaller.
func TestWhatWasNotSentLeavesWithItsCaller(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		c := s.casting(t.Context(), "x")
		s.next("Open").answer(answer{})
		s.next("Enter").fail(errUnsent)
		time.Sleep(s.Engine.patience() - 50*time.Millisecond)
		s.next("Enter").fail(errUnsent)
		time.Sleep(50 * time.Millisecond)
		c.fails(t, store.ErrUnavailable)
		require.ErrorContains(t, c.err, "no connection")
		s.quiet()
		require.Len(t, s.slots, Slots)
	})
}

// TestOrphansHoldBackCasts: at most 32 are under way. Callers that wait are served in the order in which they came, or
// give up. The end of the session frees the slots of its orphans.
func TestOrphansHoldBackCasts(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		for i := range Slots {
			s.impatientIn(strconv.Itoa(i))
		}
		require.Equal(t, Slots, s.count("Void"))
		first := s.casting(t.Context(), "first")
		ctx, cancel := context.WithCancelCause(t.Context())
		leaves := s.casting(ctx, "leaves")
		second := s.casting(t.Context(), "second")
		third := s.casting(t.Context(), "third")
		require.Zero(t, s.count("Enter"))
		cancel(errDisk)
		leaves.fails(t, errDisk)

		oldest := s.find("Void")
		s.all()[3].answer(answer{}) // one without an answer delays no other
		require.Equal(t, "first", s.find("Enter").election)
		s.find("Enter").answer(entered(1, Place{}))
		first.succeeds(t)
		require.Equal(t, "second", s.find("Enter").election)
		require.Same(t, oldest, s.find("Void"))

		s.session.ends(nil)
		s.next("Enter").fail(errLater)
		require.Zero(t, s.count("Void"))
		require.False(t, second.returned() || third.returned())
		time.Sleep(50 * time.Millisecond)
		s.next("Open").answer(answer{})
		s.next("Enter").answer(entered(1, Place{}))
		s.next("Enter").answer(entered(2, Place{}))
		second.succeeds(t)
		third.succeeds(t)
		require.Len(t, s.slots, Slots)
	})
}

// TestEntryThatIsOfNoUse is voided, and another is cast.
func TestEntryThatIsOfNoUse(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		c := s.casting(t.Context(), "x")
		s.next("Open").answer(answer{})
		first := s.next("Enter")
		first.fail(ErrGone)
		require.Equal(t, first.nonce, s.next("Void").nonce)
		time.Sleep(50 * time.Millisecond)
		require.NotEqual(t, first.nonce.Name, s.find("Enter").nonce.Name)
		s.find("Enter").answer(entered(1, Place{}))
		c.succeeds(t)
	})
}

// TestEnterThatIsRefused leaves an orphan only if there may be an entry.
func TestEnterThatIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		before []error
		last   answer
		voids  int
	}{
		"at once":              {nil, answer{err: store.ErrDenied}, 0},
		"after it was unsent":  {[]error{errUnsent}, answer{err: store.ErrDenied}, 0},
		"after it may be made": {[]error{errLater, errUnsent}, answer{err: store.ErrDenied}, 1},
		"made":                 {nil, answer{err: store.ErrDenied, entry: Entry{Token: 3}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, Settings{}, func(t *testing.T, s *scene) {
				call := s.casting(t.Context(), "x")
				s.next("Open").answer(answer{})
				for _, err := range c.before {
					s.next("Enter").fail(err)
					time.Sleep(100 * time.Millisecond)
				}
				s.next("Enter").answer(c.last)
				call.fails(t, store.ErrDenied)
				require.Equal(t, c.voids, s.count("Void"))
				require.Len(t, s.slots, Slots-c.voids)
				require.Len(t, s.current.claims, c.voids)
			})
		})
	}
}

// TestSessionOverWhileTheReplyIsOnItsWay: the entry ended with the session. Another one is cast in the next session.
func TestSessionOverWhileTheReplyIsOnItsWay(t *testing.T) {
	for name, reply := range map[string]answer{"made": entered(1, Place{}), "unknown": {err: errLater}} {
		t.Run(name, func(t *testing.T) {
			play(t, Settings{}, func(t *testing.T, s *scene) {
				c := s.casting(t.Context(), "x")
				s.next("Open").answer(answer{})
				enter := s.next("Enter")
				s.session.ends(nil)
				enter.answer(reply)
				require.False(t, c.returned())
				require.Zero(t, s.count("Void"))
				require.Len(t, s.slots, Slots)
				time.Sleep(50 * time.Millisecond)
				s.next("Open").answer(answer{})
				s.next("Enter").answer(entered(2, Place{}))
				c.succeeds(t)
				require.Equal(t, uint64(2), c.value.Token())
			})
		})
	}
}
