package engine

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// auditing plays with a ballot that leads in election "x", and answers what is sent for the turns of the watches.
func auditing(t *testing.T, test func(t *testing.T, s *scene, b *ballot)) {
	t.Helper()
	var log lines
	settings := log.settings()
	play(t, settings, func(t *testing.T, s *scene) {
		s.firsts.Store(true)
		b, _ := s.leading(1)
		s.rota.leave(s.rota.list.Front()) // only heads are looked at
		test(t, s, b)
	})
}

// back is the state of an entry of the session that no claim accounts for.
func (s *scene) back(b *ballot) answer {
	return answer{first: State{Token: 1, Session: b.session.id, Nonce: s.id + "ff"}}
}

// TestEntryThatIsNotExplained ends the session, which takes it along: two reads show it that were both sent after the one that
// first did. The candidate stands again in the next session.
func TestEntryThatIsNotExplained(t *testing.T) {
	auditing(t, func(t *testing.T, s *scene, b *ballot) {
		time.Sleep(pace)
		for range 2 {
			s.next("First").answer(s.back(b))
			require.False(t, b.isLost(), "the claim might have been settled meanwhile")
			s.quiet()
			time.Sleep(200 * time.Millisecond)
		}
		s.next("First").answer(s.back(b))
		require.True(t, b.isLost())
		require.ErrorContains(t, b.Err(), "the service was set back")
		<-s.withdraw(t.Context(), b).done
		s.next("End").answer(answer{})
		again := s.cast(2, Place{})
		require.NotSame(t, b.session, again.session)
	})
}

// TestWhatExplainsAnEntry: these heads cost nothing, however often they are seen.
func TestWhatExplainsAnEntry(t *testing.T) {
	for name, head := range map[string]func(s *scene, b *ballot) State{
		"none": func(*scene, *ballot) State { return State{} },
		"a ballot": func(_ *scene, b *ballot) State {
			return State{Token: 1, Session: b.session.id, Nonce: b.claim.nonce.Name}
		},
		"another session": func(s *scene, _ *ballot) State { return State{Token: 1, Session: "other", Nonce: s.id + "ff"} },
		"another recipe":  func(_ *scene, b *ballot) State { return State{Token: 1, Session: b.session.id} },
		"a cast under way": func(s *scene, b *ballot) State {
			return State{Token: 1, Session: b.session.id, Nonce: s.find("Enter").nonce.Name}
		},
		"an orphan": func(s *scene, b *ballot) State {
			return State{Token: 1, Session: b.session.id, Nonce: s.find("Void").nonce.Name}
		},
		"a removal under way": func(_ *scene, b *ballot) State {
			return State{Token: 1, Session: b.session.id, Nonce: b.claim.nonce.Name}
		},
		"a removal in retries": func(_ *scene, b *ballot) State {
			return State{Token: 1, Session: b.session.id, Nonce: b.claim.nonce.Name}
		},
	} {
		t.Run(name, func(t *testing.T) {
			auditing(t, func(t *testing.T, s *scene, b *ballot) {
				other, _ := s.leading(2)
				switch name {
				case "a cast under way":
					s.casting(t.Context(), "x")
				case "an orphan":
					s.impatient()
				case "a removal under way", "a removal in retries":
					s.withdraw(t.Context(), b)
					s.find("Remove")
				}
				if name == "a removal in retries" {
					s.find("Remove").fail(Answered(errLater))
				}
				for range 5 {
					time.Sleep(pace)
					s.find("First").answer(answer{first: head(s, b)})
					require.Zero(t, s.count("First"), "it is not read again")
					require.False(t, other.isLost())
				}
			})
		})
	}
}

// TestEntryThatGoesWhileItIsReadAgain was explained by a claim that has been settled, or was seen late.
func TestEntryThatGoesWhileItIsReadAgain(t *testing.T) {
	for _, sights := range []int{1, 2} {
		auditing(t, func(t *testing.T, s *scene, b *ballot) {
			time.Sleep(pace)
			for range sights {
				s.next("First").answer(s.back(b))
				time.Sleep(200 * time.Millisecond)
			}
			s.next("First").answer(answer{first: State{Token: 1, Session: b.session.id, Nonce: b.claim.nonce.Name}})
			require.False(t, b.isLost())
			time.Sleep(200 * time.Millisecond)
			s.quiet()
		})
	}
	for _, nonces := range []string{"abcde", "aabbcc", "abab"} { // each is another one, and counts from its beginning
		auditing(t, func(t *testing.T, s *scene, b *ballot) {
			time.Sleep(pace)
			for _, nonce := range nonces {
				s.next("First").answer(answer{first: State{Token: 1, Session: b.session.id, Nonce: s.id + string(nonce)}})
				require.False(t, b.isLost())
				time.Sleep(400 * time.Millisecond)
			}
		})
	}
}

// TestLookWithoutAnAnswer is sent again; one that is denied says nothing.
func TestLookWithoutAnAnswer(t *testing.T) {
	auditing(t, func(t *testing.T, s *scene, b *ballot) {
		time.Sleep(pace)
		s.next("First").fail(errLater)
		time.Sleep(50 * time.Millisecond)
		s.next("First").fail(store.ErrDenied)
		s.quiet()
		require.False(t, b.isLost())
		time.Sleep(pace)
		s.next("First")
	})
}

// TestHeadsInTurn: one for each pace, of every election in which the session ever cast, also where nothing stands now.
func TestHeadsInTurn(t *testing.T) {
	auditing(t, func(t *testing.T, s *scene, b *ballot) {
		c := s.casting(t.Context(), "y")
		s.next("Enter").fail(store.ErrDenied)
		require.True(t, c.returned())
		for _, want := range []string{"x", "y", "x", "y"} {
			time.Sleep(pace)
			r := s.next("First")
			require.Equal(t, want, r.election)
			r.answer(answer{})
			s.quiet()
		}
		s.session.ends(nil)
		time.Sleep(4 * pace)
		require.Zero(t, s.count("First"), "the session is over")
	})
}

// TestReconnectionLooksAtAllHeads, 16 at once. A proof of the same connection does not.
func TestReconnectionLooksAtAllHeads(t *testing.T) {
	auditing(t, func(t *testing.T, s *scene, b *ballot) {
		const elections = places + 4 // and "x"
		for i := range elections {
			c := s.casting(t.Context(), strconv.Itoa(i))
			s.find("Enter").fail(store.ErrDenied)
			require.True(t, c.returned())
		}
		s.session.renew(Proof{Sent: store.Now(), Valid: ttl})
		require.Zero(t, s.count("First"))
		s.session.renew(Proof{Sent: store.Now(), Valid: ttl, Connection: 2})
		require.Equal(t, places, s.count("First"))
		seen := map[string]bool{}
		for range elections + 1 {
			r := s.find("First")
			seen[r.election] = true
			r.answer(answer{})
		}
		require.Len(t, seen, elections+1)
		s.quiet()
		s.session.renew(Proof{Sent: store.Now(), Valid: ttl, Connection: 2})
		s.quiet()
		s.session.renew(Proof{Sent: store.Now(), Valid: ttl, Connection: 1})
		require.Equal(t, places, s.count("First"))
		require.False(t, b.isLost())
	})
}

// TestLookWithoutAnAnswerEnds after a TTL, so that the head of one election that can't be read holds up no other: its turn
// comes again.
func TestLookWithoutAnAnswerEnds(t *testing.T) {
	auditing(t, func(t *testing.T, s *scene, b *ballot) {
		began := time.Now()
		looked := start(func() (struct{}, error) { b.session.look("y"); return struct{}{}, nil })
		for !looked.returned() {
			require.LessOrEqual(t, time.Since(began), ttl+time.Second)
			for _, r := range s.all() {
				r.fail(Answered(store.ErrUnavailable))
			}
			time.Sleep(50 * time.Millisecond)
		}
		require.False(t, b.isLost())
	})
}

// TestElectionsThatAreOver: a session remembers those in which it has a claim, and of the others the last ones that were
// over. An election that is forgotten costs no other its turn.
func TestElectionsThatAreOver(t *testing.T) {
	auditing(t, func(t *testing.T, s *scene, b *ballot) {
		token := uint64(1)
		over := func(election string) {
			token++
			c := s.casting(t.Context(), election)
			s.find("Enter").answer(entered(token, Place{}))
			require.True(t, c.returned())
			w := s.withdraw(t.Context(), c.value)
			s.find("Remove").answer(answer{})
			<-w.done
		}
		name := func(i int) string { return fmt.Sprintf("%04d", i) }
		for i := range mostElections {
			over(name(i))
		}
		require.Len(t, b.session.elections(), 1000+1, "and x, where a ballot stands")
		over(name(1))
		over("new")
		require.NotContains(t, b.session.elections(), name(0), "that has been over for the longest")
		over("newer")
		require.Contains(t, b.session.elections(), name(1), "a later ballot was cast there")
		require.NotContains(t, b.session.elections(), name(2))
		require.Len(t, b.session.elections(), mostElections+1)
		w := s.withdraw(t.Context(), b)
		s.find("Remove").answer(answer{})
		<-w.done
		require.Contains(t, b.session.elections(), "x", "it was over last")
		require.Len(t, b.session.elections(), mostElections)
	})
}

// TestForgottenElectionCostsNoTurn: each election that is still audited is looked at within as many paces as there are.
func TestForgottenElectionCostsNoTurn(t *testing.T) {
	auditing(t, func(t *testing.T, s *scene, b *ballot) {
		over := func(election string) {
			free := <-s.slots
			c, err := b.session.claim(election, free)
			require.NoError(t, err)
			c.settle()
			s.slots <- free
		}
		for i := range mostElections {
			over(strconv.Itoa(i))
		}
		paces := func(each func(pace int)) (looked map[string]bool) {
			looked = map[string]bool{}
			for i := range mostElections + 1 {
				time.Sleep(pace)
				r := s.next("First")
				looked[r.election] = true
				r.answer(answer{})
				each(i)
			}
			return looked
		}
		old := b.session.elections()
		looked := paces(func(i int) {
			if i%2 == 0 { // the oldest is forgotten
				over(fmt.Sprint("new ", i))
			}
		})
		for _, election := range old {
			require.True(t, looked[election] || !slices.Contains(b.session.elections(), election), election)
		}
		looked = paces(func(int) {})
		require.Equal(t, b.session.elections(), slices.Sorted(maps.Keys(looked)), "those that are forgotten have no turn")
	})
}

// TestSessionThatEndsIsLoggedOnce, whatever is found in how many elections.
func TestSessionThatEndsIsLoggedOnce(t *testing.T) {
	var log strings.Builder
	play(t, Settings{Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(t *testing.T, s *scene) {
		s.firsts.Store(true)
		b, _ := s.leading(1)
		c := s.casting(t.Context(), "y")
		s.next("Enter").fail(store.ErrDenied)
		require.True(t, c.returned())
		s.session.renew(Proof{Sent: store.Now(), Valid: ttl * 2 / 3, Connection: 1})
		for range 3 {
			synctest.Wait()
			for _, r := range s.all() { // both at once
				r.driver.take(r)
				r.reply <- s.back(b)
			}
			time.Sleep(200 * time.Millisecond)
		}
		require.True(t, b.isLost())
		require.Equal(t, 1, strings.Count(log.String(), "so the session ends"), log.String())
	})
}

// TestLookUnderWay is the only one, and ends with its session: the next session does not wait for the answer.
func TestLookUnderWay(t *testing.T) {
	auditing(t, func(t *testing.T, s *scene, b *ballot) {
		s.session.renew(Proof{Sent: store.Now(), Valid: ttl, Connection: 2})
		look := s.next("First")
		time.Sleep(2 * pace)
		require.Equal(t, 1, s.count("First"))
		s.session.ends(nil)
		require.Error(t, look.ctx.Err())
		s.cast(2, Place{})
	})
}
