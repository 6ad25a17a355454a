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
		if r.op == "Entry" && r.key == "own"+strconv.FormatUint(token, 10) { // others are read anew
			r.shows(State{Token: token, Session: s.scripted.session.ID()})
		}
	}
	require.NoError(s, c.value.Wait(s.Context()))
	return c.value.(*ballot)
}

// TestRefusedRemovalCostsNoTerm of another election: its ballot stands, and nothing more is cast in its election until it
// has been removed, or the session has ended. The session ends as soon as no leader needs it.
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

// TestRefusedRemovalIsLoggedAgain after pauses that grow.
func TestRefusedRemovalIsLoggedAgain(t *testing.T) {
	var log lines
	play(t, log.settings(), func(t *testing.T, s *scene) {
		s.leadingIn("y", 1)
		s.withdraw(t.Context(), s.leadingIn("x", 2))
		s.find("Remove").fail(store.ErrDenied)
		began := time.Now()
		for time.Since(began) < 40*time.Minute {
			time.Sleep(refusedPause)
			for _, r := range s.all() {
				if r.op == "Remove" {
					r.fail(store.ErrDenied)
				}
			}
		}
		require.Equal(t, 6, log.count(), "at once, and after 1, 3, 7, 15 and 31 minutes")
	})
}

// TestRefusedRemovalOfAWaiter costs no leader's term in the same election: none waits for the entry.
func TestRefusedRemovalOfAWaiter(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		leads, _ := s.leading(1)
		waiter := s.cast(2, Place{Nearest: "own1"})
		s.find("Entry").shows(State{Token: 1, Session: leads.session.id})
		s.find("Entry").shows(State{Token: 2, Session: leads.session.id})
		c := s.withdraw(t.Context(), waiter)
		s.find("Remove").fail(store.ErrDenied)
		c.fails(t, store.ErrDenied)
		require.False(t, leads.isLost())
	})
}

// TestRefusedRemovalWhileALeaderResigns: the leader's ballot is removed before the session ends.
func TestRefusedRemovalWhileALeaderResigns(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		leads := s.leadingIn("y", 1)
		s.withdraw(t.Context(), s.leadingIn("x", 2))
		s.find("Remove").fail(store.ErrDenied)
		resigns := s.withdraw(t.Context(), leads)
		time.Sleep(refusedPause)
		require.Equal(t, 2, s.count("Remove"))
		for _, r := range s.all() {
			if r.op == "Remove" && r.election == "x" {
				r.fail(store.ErrDenied)
			}
		}
		require.False(t, resigns.returned())
		s.find("Remove").answer(answer{})
		resigns.succeeds(t)
		time.Sleep(refusedPause)
		s.find("Remove").fail(store.ErrDenied)
		s.find("End").answer(answer{})
	})
}

// TestRefusedVoidCostsNoTerm, and its slot stays taken. If that is so of half of them, the session ends.
func TestRefusedVoidCostsNoTerm(t *testing.T) {
	play(t, Settings{}, func(t *testing.T, s *scene) {
		leads := s.leadingIn("y", 1)
		for i := range Slots/2 + 1 {
			require.False(t, leads.isLost())
			s.impatientIn(string(rune('a' + i)))
			for _, r := range s.all() {
				if r.op == "Void" {
					r.fail(store.ErrDenied)
				}
			}
		}
		require.True(t, leads.isLost())
		s.withdraw(t.Context(), leads)
		s.find("End").answer(answer{})
		require.Len(t, s.slots, Slots)
	})
}
