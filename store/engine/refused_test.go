package engine

import (
	"strconv"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// leadingIn casts a ballot that is first in an election, and watched.
func (s *scene) leadingIn(election string, token uint64) *ballot {
	s.Helper()
	c := s.casting(s.Context(), election)
	if s.count("Open") > 0 {
		s.find("Open").answer(answer{})
	}
	s.find("Enter").answer(entered(token, Place{}))
	c.succeeds(s)
	for _, r := range s.all() {
		if r.op == "Entry" && r.key == "own"+strconv.FormatUint(token, 10) { // others are resynced
			r.shows(State{Token: token, Session: s.scripted.session.ID()})
		}
	}
	require.NoError(s, c.value.Wait(s.Context()))
	return c.value.(*ballot)
}

// deny refuses all requests of an operation in an election.
func (s *scene) deny(op, election string) {
	for _, r := range s.all() {
		if r.op == op && r.election == election {
			r.fail(store.ErrDenied)
		}
	}
}

// TestRemovalThatIsRefusedEndsTheSession that no leader's work depends on: its end takes the entry along, else those behind
// it would never lead.
func TestRemovalThatIsRefusedEndsTheSession(t *testing.T) {
	var log lines
	play(t, log.settings(), func(t *testing.T, s *scene) {
		b, _ := s.leading(1)
		other, _, _ := s.waitingBehind(behind)
		c := s.withdraw(t.Context(), b)
		s.next("Remove").fail(errLater)
		require.False(t, other.isLost())
		time.Sleep(50 * time.Millisecond)
		s.next("Remove").fail(store.ErrDenied)
		c.fails(t, store.ErrDenied)
		require.ErrorIs(t, c.err, store.ErrUnknownOutcome, "the first request had no answer")
		require.True(t, other.isLost())
		require.NotErrorIs(t, other.Err(), store.ErrDenied, "it was not refused")
		require.ErrorContains(t, other.Err(), "a ballot could not be removed: permission denied")
		require.Contains(t, log.String(), "so the session ends")
		require.Contains(t, log.String(), "own1")
		s.next("End").answer(answer{})
		require.NoError(t, b.Withdraw(t.Context()))
	})
	play(t, Settings{}, func(t *testing.T, s *scene) {
		s.impatient()
		s.next("Void").fail(store.ErrDenied)
		s.next("End").answer(answer{})
		require.Len(t, s.slots, Slots)
	})
}

// TestRefusedRemovalCostsNoTerm of another election: its ballot stands, and nothing more is cast in its election until it
// has been removed, or the session has ended. The session ends as soon as no leader's work depends on it.
func TestRefusedRemovalCostsNoTerm(t *testing.T) {
	for name, passes := range map[string]bool{"the refusal passes": true, "the refusal stays": false} {
		t.Run(name, func(t *testing.T) {
			var log lines
			play(t, log.settings(), func(t *testing.T, s *scene) {
				leads := s.leadingIn("y", 1)
				b := s.leadingIn("x", 2)
				c := s.withdraw(t.Context(), b)
				s.find("Remove").fail(store.ErrDenied)
				c.fails(t, store.ErrDenied)
				require.False(t, leads.isLost(), "it was not refused")
				require.True(t, s.holds(leads))
				require.Equal(t, 1, log.count())
				require.Contains(t, log.String(), `election=x entry=own2 error="permission denied"`)

				again := s.casting(t.Context(), "x")
				again.fails(t, store.ErrDenied)
				require.ErrorContains(t, again.err, `cast in election "x" on test://: ballot own2 of this process can't be removed: permission denied`)
				s.withdraw(t.Context(), b).fails(t, store.ErrDenied)
				time.Sleep(refusedPause)
				s.find("Remove").fail(errUnsent)
				s.withdraw(t.Context(), b).fails(t, store.ErrDenied) // and waits for no answer

				time.Sleep(refusedPause)
				if passes {
					s.find("Remove").answer(answer{})
					s.withdraw(t.Context(), b).succeeds(t)
					require.Contains(t, log.String(), "the ballot that could not be removed is gone")
					s.leadingIn("x", 3)
					require.False(t, leads.isLost())
					return
				}
				s.find("Remove").fail(store.ErrDenied)
				require.Zero(t, s.count("End"))
				c = s.withdraw(t.Context(), leads)
				s.find("Remove").answer(answer{})
				c.succeeds(t)
				time.Sleep(refusedPause)
				s.find("Remove").fail(store.ErrDenied)
				s.find("End").answer(answer{}) // and takes the entry along
				require.Contains(t, log.String(), "so the session ends")
				s.leadingIn("x", 3)
			})
		})
	}
}

// TestRefusedRemovalIsLoggedAgain after pauses that grow. That of a waiter costs no term in the same election.
func TestRefusedRemovalIsLoggedAgain(t *testing.T) {
	var log lines
	play(t, log.settings(), func(t *testing.T, s *scene) {
		leads, _ := s.leading(1)
		waiter := s.cast(2, Place{Nearest: "own1"})
		c := s.withdraw(t.Context(), waiter)
		s.deny("Remove", "x")
		c.fails(t, store.ErrDenied)
		for began := time.Now(); time.Since(began) < 40*time.Minute; time.Sleep(refusedPause) {
			s.deny("Remove", "x")
		}
		require.Equal(t, 6, log.count(), "at once, and after 1, 3, 7, 15 and 31 minutes")
		require.False(t, leads.isLost())
	})
}

// TestRefusedVoidCostsNoTerm, and its slot stays taken until the session ends.
func TestRefusedVoidCostsNoTerm(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		leads := s.leadingIn("y", 1)
		for i := range Slots {
			s.impatientIn(strconv.Itoa(i))
			s.deny("Void", strconv.Itoa(i))
		}
		require.False(t, leads.isLost())
		waits := s.casting(t.Context(), "z")
		require.False(t, waits.returned())
		c := s.withdraw(t.Context(), leads)
		s.find("Remove").answer(answer{})
		c.succeeds(t)
		time.Sleep(refusedPause)
		s.deny("Void", "0")
		s.find("End").answer(answer{})
		require.Len(t, s.slots, Slots)
		time.Sleep(time.Second)
		s.find("Open").answer(answer{})
		require.Equal(t, "z", s.find("Enter").election)
	})
}
