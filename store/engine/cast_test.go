package engine

import (
	"context"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

func TestEnterIsSentAgainWithTheSameNonce(t *testing.T) {
	for _, err := range []error{errLater, errUnsent} {
		play(t, Settings{}, func(t *testing.T, s *scene) {
			s.cast(1, Place{})
			s.next("Entry").shows(State{Token: 1})
			c := s.campaign(t.Context(), "x")
			first := s.next("Enter")
			require.Equal(t, "value", first.value)
			first.fail(err)
			time.Sleep(50 * time.Millisecond)
			again := s.next("Enter")
			require.Equal(t, first.nonce, again.nonce)
			again.answer(entered(2, Place{}))
			require.True(t, c.returned())
			require.NoError(t, c.err)
			require.Equal(t, uint64(2), c.value.Token())
		})
	}
}

func TestNoncesDiffer(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		names, slots := map[string]bool{}, map[int]uint64{}
		for i := range 3 * Slots {
			c := s.campaign(t.Context(), "x")
			if i == 0 {
				s.next("Open").answer(answer{})
			}
			r := s.find("Enter")
			require.False(t, names[r.nonce.Name])
			require.Less(t, slots[r.nonce.Slot], r.nonce.Turn)
			names[r.nonce.Name], slots[r.nonce.Slot] = true, r.nonce.Turn
			r.fail(store.ErrInvalid)
			require.True(t, c.returned())
		}
		require.Len(t, slots, Slots)
		require.Equal(t, uint64(3), slots[0])
	})
}

// impatient starts a campaign whose request is sent, and ends its context.
func (s *scene) impatient() (enter *request, c *call[store.Ballot]) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	c = s.campaign(ctx, "x")
	if s.count("Open") > 0 {
		s.next("Open").answer(answer{})
	}
	enter = s.find("Enter")
	cancel()
	require.True(s, c.returned())
	require.ErrorIs(s, c.err, context.Canceled)
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
		require.Empty(t, s.current.nonces)
	})
}

// TestErrorOfAnEndedContext that shows nothing about the request counts as an unknown outcome.
func TestErrorOfAnEndedContext(t *testing.T) {
	for err, voids := range map[error]int{context.Canceled: 1, errUnsent: 0} {
		play(t, Settings{}, func(t *testing.T, s *scene) {
			ctx, cancel := context.WithCancel(t.Context())
			c := s.campaign(ctx, "x")
			s.next("Open").answer(answer{})
			s.deaf.Store(true)
			cancel()
			s.next("Enter").fail(err)
			require.True(t, c.returned())
			require.ErrorIs(t, c.err, context.Canceled)
			require.Equal(t, voids, s.count("Void"))
			s.deaf.Store(false)
		})
	}
}

// TestWhatWasNotSentLeavesWithItsCaller.
func TestWhatWasNotSentLeavesWithItsCaller(t *testing.T) {
	play(t, Settings{CampaignTimeout: time.Second}, func(t *testing.T, s *scene) {
		c := s.campaign(t.Context(), "x")
		s.next("Open").answer(answer{})
		s.next("Enter").fail(errUnsent)
		time.Sleep(950 * time.Millisecond)
		s.next("Enter").fail(errUnsent)
		time.Sleep(50 * time.Millisecond)
		require.True(t, c.returned())
		require.ErrorIs(t, c.err, store.ErrUnavailable)
		require.ErrorContains(t, c.err, "no connection")
		s.quiet()
		require.Len(t, s.slots, Slots)
	})
}

// TestOrphansHoldBackCasts: at most 32 are under way. Callers that wait are served in the order in which they came, or
// give up.
func TestOrphansHoldBackCasts(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		for range Slots {
			s.impatient()
		}
		require.Equal(t, Slots, s.count("Void"))
		first := s.campaign(t.Context(), "first")
		ctx, cancel := context.WithCancelCause(t.Context())
		leaves := s.campaign(ctx, "leaves")
		second := s.campaign(t.Context(), "second")
		require.Zero(t, s.count("Enter"))
		cancel(errDisk)
		require.True(t, leaves.returned())
		require.ErrorIs(t, leaves.err, errDisk)

		oldest := s.find("Void")
		s.all()[3].answer(answer{}) // one without an answer delays no other
		require.Equal(t, "first", s.find("Enter").election)
		s.find("Enter").answer(entered(1, Place{}))
		require.True(t, first.returned())
		require.Equal(t, "second", s.find("Enter").election)
		s.find("Enter").answer(entered(2, Place{}))
		require.True(t, second.returned())
		require.Same(t, oldest, s.find("Void"))
	})
}

// TestEndOfTheSessionFreesTheSlots: the orphans ended with it.
func TestEndOfTheSessionFreesTheSlots(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		for range Slots {
			s.impatient()
		}
		c := s.campaign(t.Context(), "x")
		s.session.ends(nil)
		require.Zero(t, s.count("Void"))
		require.Len(t, s.slots, Slots)
		time.Sleep(50 * time.Millisecond)
		s.next("Open").answer(answer{})
		s.next("Enter").answer(entered(1, Place{}))
		require.True(t, c.returned())
		require.NoError(t, c.err)
	})
}

// TestOrphanOfACallersConnection: if the service has ended the session, the orphan has ended with it, too.
func TestOrphanOfACallersConnection(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.owned = false
		s.impatient()
		void := s.next("Void")
		s.session.ends(nil)
		void.fail(errLater)
		time.Sleep(time.Second)
		s.quiet()
		require.Len(t, s.slots, Slots)
	})
}

// TestEntryThatIsOfNoUse is voided, and another is cast.
func TestEntryThatIsOfNoUse(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		c := s.campaign(t.Context(), "x")
		s.next("Open").answer(answer{})
		first := s.next("Enter")
		first.fail(ErrGone)
		require.Equal(t, first.nonce, s.next("Void").nonce)
		time.Sleep(50 * time.Millisecond)
		require.NotEqual(t, first.nonce.Name, s.find("Enter").nonce.Name)
		s.find("Enter").answer(entered(1, Place{}))
		require.True(t, c.returned())
		require.NoError(t, c.err)
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
				call := s.campaign(t.Context(), "x")
				s.next("Open").answer(answer{})
				for _, err := range c.before {
					s.next("Enter").fail(err)
					time.Sleep(100 * time.Millisecond)
				}
				s.next("Enter").answer(c.last)
				require.True(t, call.returned())
				require.ErrorIs(t, call.err, store.ErrDenied)
				require.Equal(t, c.voids, s.count("Void"))
				require.Len(t, s.slots, Slots-c.voids)
				require.Len(t, s.current.nonces, c.voids)
			})
		})
	}
}

// TestSessionOverWhileTheReplyIsOnItsWay: the entry ended with the session. Another one is cast in the next session.
func TestSessionOverWhileTheReplyIsOnItsWay(t *testing.T) {
	for name, reply := range map[string]answer{"made": entered(1, Place{}), "unknown": {err: errLater}} {
		t.Run(name, func(t *testing.T) {
			play(t, Settings{}, func(t *testing.T, s *scene) {
				c := s.campaign(t.Context(), "x")
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
				require.True(t, c.returned())
				require.Equal(t, uint64(2), c.value.Token())
			})
		})
	}
}

// TestVoidThatIsRefusedEndsTheSession.
func TestVoidThatIsRefusedEndsTheSession(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.impatient()
		s.next("Void").fail(store.ErrDenied)
		s.next("End").answer(answer{})
		require.Len(t, s.slots, Slots)
	})
}

// TestStrayIsVoided: an entry of this session and store that belongs to no ballot, from a restored snapshot. Entries of
// ballots, of other stores on the same connection, and of other sessions stay.
func TestStrayIsVoided(t *testing.T) {
	for name, c := range map[string]struct {
		state func(s *scene, b *ballot) State
		void  bool
	}{
		"stray":     {func(s *scene, b *ballot) State { return State{Token: 1, Session: b.session.id, Nonce: s.id + "ff"} }, true},
		"ballot":    {func(_ *scene, b *ballot) State { return State{Token: 1, Session: b.session.id, Nonce: b.nonce.Name} }, false},
		"not ours":  {func(_ *scene, b *ballot) State { return State{Token: 1, Session: b.session.id, Nonce: "ff"} }, false},
		"elsewhere": {func(s *scene, _ *ballot) State { return State{Token: 1, Session: "other", Nonce: s.id + "ff"} }, false},
		"gone":      {func(s *scene, b *ballot) State { return State{Session: b.session.id, Nonce: s.id + "ff"} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, Settings{}, func(t *testing.T, s *scene) {
				first, _ := s.leading(1)
				s.cast(2, Place{Nearest: "own1"})
				s.next("Entry").shows(c.state(s, first))
				if !c.void {
					require.Zero(t, s.count("Void"))
					return
				}
				require.Equal(t, s.id+"ff", s.find("Void").nonce.Name)
				require.NotZero(t, s.find("Void").nonce.Turn, "else what was void before in its slot would be so no more")
				require.Len(t, s.slots, Slots-1)
				require.Equal(t, 1, s.current.pending)
				require.Contains(t, s.current.nonces, s.id+"ff")
				s.find("Void").answer(answer{})
				require.Len(t, s.slots, Slots)
				require.Zero(t, s.current.pending)
				require.NotContains(t, s.current.nonces, s.id+"ff")
			})
		})
	}
}

// TestStrayInAListIsVoided, also behind an entry of another store, which the engine does not remove.
func TestStrayInAListIsVoided(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		first, _ := s.leading(1)
		list := []string{"ff", first.nonce.Name, s.id + "ff"}
		b := s.cast(2, Place{Nearest: "other", More: true, Nonces: list})
		require.Equal(t, 1, s.count("Void"))
		require.Equal(t, s.id+"ff", s.find("Void").nonce.Name)
		require.Empty(t, b.entry.Place.Nonces)
		s.find("Void").answer(answer{})

		prev := s.next("Entry")
		prev.shows(other)
		s.next("Entry").shows(State{Token: 2})
		prev.goes()
		s.next("Ahead").answer(answer{place: Place{Nearest: "own1", Nonces: list}})
		require.Equal(t, 1, s.count("Void"))
		require.Empty(t, b.entry.Place.Nonces)
	})
}

func TestCampaignChecksItsArguments(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		_, err := s.Engine.Cast(t.Context(), "/", "")
		require.ErrorIs(t, err, store.ErrInvalid)
		_, err = s.Engine.Cast(t.Context(), "x", string(make([]byte, store.MaxValue+1)))
		require.ErrorIs(t, err, store.ErrInvalid)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = s.Engine.Cast(ctx, "x", "")
		require.ErrorIs(t, err, context.Canceled)
		s.quiet()
	})
}
