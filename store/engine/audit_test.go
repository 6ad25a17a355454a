package engine

import (
	"fmt"
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
	playLeading(t, func(t *testing.T, s *scene, b *ballot, _ *request) {
		s.firsts.Store(true)
		s.rota.leave(s.rota.list.Front()) // only heads are looked at
		test(t, s, b)
	})
}

// head is the state of an entry of the ballot's session.
func head(b *ballot, nonce string) answer {
	return answer{first: State{Token: 1, Session: b.session.id, Nonce: nonce}}
}

// back is head of an entry that no claim accounts for.
func back(b *ballot) answer { return head(b, b.engine.id+"ff") }

// denied casts a ballot in an election, which is refused: the election is audited.
func (s *scene) denied(election string) {
	s.Helper()
	c := s.casting(s.Context(), election)
	s.find("Enter").fail(store.ErrDenied)
	require.True(s, c.returned())
}

// TestEntryThatIsNotExplained ends the session, which takes it along: two reads show it that were both sent after the one that
// first did. The candidate stands again in the next session.
func TestEntryThatIsNotExplained(t *testing.T) {
	auditing(t, func(t *testing.T, s *scene, b *ballot) {
		time.Sleep(pace)
		for range 2 {
			s.next("First").answer(back(b))
			require.False(t, b.isLost(), "the claim might have been settled meanwhile")
			s.quiet()
			time.Sleep(200 * time.Millisecond)
		}
		s.next("First").answer(back(b))
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
	own := func(_ *scene, b *ballot) answer { return head(b, b.claim.nonce.Name) }
	for name, c := range map[string]struct {
		before func(s *scene, b *ballot)
		head   func(s *scene, b *ballot) answer
	}{
		"none":     {nil, func(*scene, *ballot) answer { return answer{} }},
		"a ballot": {nil, own},
		"another session": {nil, func(s *scene, _ *ballot) answer {
			return answer{first: State{Token: 1, Session: "other", Nonce: s.id + "ff"}}
		}},
		"another recipe": {nil, func(_ *scene, b *ballot) answer { return head(b, "") }},
		"a cast under way": {
			func(s *scene, _ *ballot) { s.casting(s.Context(), "x") },
			func(s *scene, b *ballot) answer { return head(b, s.find("Enter").nonce.Name) },
		},
		"an orphan": {
			func(s *scene, _ *ballot) { s.impatient() },
			func(s *scene, b *ballot) answer { return head(b, s.find("Void").nonce.Name) },
		},
		"a removal under way":  {func(s *scene, b *ballot) { s.withdraw(s.Context(), b) }, own},
		"a removal in retries": {func(s *scene, b *ballot) { s.withdraw(s.Context(), b); s.find("Remove").fail(Answered(errLater)) }, own},
	} {
		t.Run(name, func(t *testing.T) {
			auditing(t, func(t *testing.T, s *scene, b *ballot) {
				other, _ := s.leading(2)
				if c.before != nil {
					c.before(s, b)
				}
				for range 5 {
					time.Sleep(pace)
					s.find("First").answer(c.head(s, b))
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
				s.next("First").answer(back(b))
				time.Sleep(200 * time.Millisecond)
			}
			s.next("First").answer(head(b, b.claim.nonce.Name))
			require.False(t, b.isLost())
			time.Sleep(200 * time.Millisecond)
			s.quiet()
		})
	}
	for _, nonces := range []string{"abcde", "aabbcc", "abab"} { // each is another one, and counts from its beginning
		auditing(t, func(t *testing.T, s *scene, b *ballot) {
			time.Sleep(pace)
			for _, nonce := range nonces {
				s.next("First").answer(head(b, s.id+string(nonce)))
				require.False(t, b.isLost())
				time.Sleep(400 * time.Millisecond)
			}
		})
	}
}

// TestLookWithoutAnAnswer is sent again, for a TTL: then the turn of the election has to come again. One that is denied says
// nothing.
func TestLookWithoutAnAnswer(t *testing.T) {
	auditing(t, func(t *testing.T, s *scene, b *ballot) {
		time.Sleep(pace)
		s.next("First").fail(errLater)
		time.Sleep(50 * time.Millisecond)
		s.next("First").fail(store.ErrDenied)
		s.quiet()
		require.False(t, b.isLost())
		time.Sleep(pace)
		s.next("First").answer(answer{})

		began := time.Now()
		looked := start(func() (struct{}, error) { b.session.checkHead("y"); return struct{}{}, nil })
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

// TestHeadsInTurn: one for each pace, of every election in which the session ever cast, even if nothing stands there now.
func TestHeadsInTurn(t *testing.T) {
	auditing(t, func(t *testing.T, s *scene, b *ballot) {
		s.denied("y")
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
			s.denied(strconv.Itoa(i))
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

// TestElectionsThatAreOver: a session remembers those in which it has a claim, and of the others the last ones that were
// over. Each that is still audited is looked at within as many paces as there are, and those that are forgotten have no turn.
func TestElectionsThatAreOver(t *testing.T) {
	auditing(t, func(t *testing.T, s *scene, b *ballot) {
		over := func(election string) {
			free := <-s.slots
			c, err := b.session.claim(election, free)
			require.NoError(t, err)
			c.settle()
			s.slots <- free
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
				over(fmt.Sprint("later ", i))
			}
		})
		for _, election := range old {
			require.True(t, looked[election] || !slices.Contains(b.session.elections(), election), election)
		}
		looked = paces(func(int) {})
		require.Equal(t, b.session.elections(), slices.Sorted(maps.Keys(looked)))

		w := s.withdraw(t.Context(), b)
		s.find("Remove").answer(answer{})
		w.succeeds(t)
		require.Contains(t, b.session.elections(), "x", "it was over last")
		require.Len(t, b.session.elections(), mostElections)
	})
}

// TestSessionThatEndsIsLoggedOnce, whatever is found in how many elections.
func TestSessionThatEndsIsLoggedOnce(t *testing.T) {
	var log lines
	play(t, log.settings(), func(t *testing.T, s *scene) {
		s.firsts.Store(true)
		b, _ := s.leading(1)
		s.denied("y")
		s.session.renew(Proof{Sent: store.Now(), Valid: ttl * 2 / 3, Connection: 1})
		for range 3 {
			synctest.Wait()
			for _, r := range s.all() { // both at once
				r.driver.take(r)
				r.reply <- back(b)
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
