package leadership_test

import (
	"fmt"
	"math/rand/v2"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store/memory"
)

// The simulation's times. A step is how far apart two looks at everything are; what happens between two of them is
// seen by hooks.
const (
	simTTL    = 3 * time.Second
	simGrace  = simTTL / 3
	simStep   = 37 * time.Millisecond
	simEvents = 50
	// simBound is how long after all faults have healed there is a leader that all followers know: sessions that were
	// not ended expire, then the longest back-off passes, then what was under way on the slowest line arrives.
	simBound = simTTL + 5*time.Second + 6*simDelay
	simDelay = simTTL / 2
)

// simulation is one service, its members, and a schedule of faults drawn from a seed.
type simulation struct {
	*checks
	seed       int64
	watches    memory.Watches // how the members are told of changes
	rng        *rand.Rand
	early      bool // the store may end sessions and ballots early
	memory     *memory.Service
	candidates []*simCandidate
	followers  []*simFollower
}

func newSimulation(seed int64, early bool) *simulation {
	s := &simulation{seed: seed, rng: rand.New(rand.NewPCG(uint64(seed), 1)), early: early, memory: memory.NewService()}
	s.watches = memory.Watches(seed % 3)
	s.checks = newChecks(s)
	for i := range 3 + s.rng.IntN(3) {
		s.candidates = append(s.candidates, newSimCandidate(s, string(rune('a'+i))))
	}
	for i := range 1 + s.rng.IntN(2) {
		s.followers = append(s.followers, &simFollower{sim: s, name: fmt.Sprint("follower ", i)})
	}
	return s
}

func mustOpen(service *memory.Service, watches memory.Watches) *memory.Store {
	st, err := memory.Open(service, &memory.Config{TTL: simTTL, Grace: simGrace, Watches: watches})
	if err != nil {
		panic(err)
	}
	return st
}

// run runs the schedule, lets everything heal, and stops everything.
func (s *simulation) run() {
	for _, c := range s.candidates {
		c.start()
		s.pass(time.Duration(s.rng.IntN(2)) * simStep)
	}
	for _, f := range s.followers {
		f.start()
	}
	for range simEvents {
		s.event()
		s.pass(s.gap())
		if s.failed() {
			break
		}
	}
	s.heal()
	s.stop()
}

// gap is the time between two events: often next to none, now and then enough for sessions to expire.
func (s *simulation) gap() time.Duration {
	switch s.rng.IntN(8) {
	case 0, 1, 2:
		return time.Duration(s.rng.Int64N(int64(simTTL / 20)))
	case 3, 4, 5:
		return time.Duration(s.rng.Int64N(int64(simTTL / 2)))
	default:
		return time.Duration(s.rng.Int64N(int64(2 * simTTL)))
	}
}

// pass lets time pass, and looks at everything now and then.
func (s *simulation) pass(d time.Duration) {
	for end := time.Now().Add(d); ; {
		synctest.Wait()
		s.look()
		left := time.Until(end)
		if left <= 0 || s.failed() {
			return
		}
		time.Sleep(min(left, simStep))
	}
}

// event does one thing to one member.
func (s *simulation) event() {
	i := s.rng.IntN(len(s.candidates) + len(s.followers))
	if i >= len(s.candidates) {
		f := s.followers[i-len(s.candidates)]
		if s.rng.IntN(6) == 0 {
			s.note("%s starts again", f.name)
			f.stop()
			f.start()
			return
		}
		s.fault(f.name, f.store)
		return
	}
	c := s.candidates[i]
	switch n := s.rng.IntN(20); {
	case n < 2:
		s.note("%s resigns", c.name)
		c.resign()
	case n < 4:
		s.note("%s is stopped, another candidate replaces it", c.name)
		c.replace()
	case n < 6:
		s.note("%s starts again on a new store", c.name)
		c.stop()
		c.start()
	case n < 7:
		s.note("%s loses its store, and starts again on a new one", c.name)
		c.run.rude.Store(true)
		_ = c.store.Close()
		c.stop()
		c.start()
	case s.early && n < 8:
		s.note("the election is cleared")
		s.memory.Clear(election)
	case s.early && n < 10:
		s.note("%s's session expires early", c.name)
		c.store.Faults().Expire()
	default:
		s.fault(c.name, c.store)
	}
}

// fault sets a switch on a member's line.
func (s *simulation) fault(name string, st *memory.Store) {
	faults := st.Faults()
	switch n := s.rng.IntN(12); {
	case n < 3:
		s.note("%s is cut off", name)
		faults.Cut()
	case n < 5:
		s.note("%s's replies are lost", name)
		faults.LoseReplies()
	case n < 6:
		s.note("%s's watches stall", name)
		faults.StallWatches()
	case n < 8:
		d := time.Duration(s.rng.Int64N(int64(simDelay)))
		s.note("%s's line takes %v", name, d)
		faults.Delay(d)
	default:
		s.note("%s's line heals", name)
		faults.Heal()
	}
}

// heal ends all faults and waits for a leader whom everybody knows.
func (s *simulation) heal() {
	if s.failed() {
		return
	}
	s.note("everything heals")
	s.calm.Store(true)
	for _, c := range s.candidates {
		c.store.Faults().Delay(0)
		c.store.Faults().Heal()
	}
	for _, f := range s.followers {
		f.store.Faults().Delay(0)
		f.store.Faults().Heal()
	}
	for end := time.Now().Add(simBound); !s.settled(); s.pass(simStep) {
		if s.failed() {
			return
		}
		if time.Now().After(end) {
			s.violate("no leader whom everybody knows %v after everything had healed: %s", simBound, s.opinions())
			return
		}
	}
	s.pass(2 * simTTL)
	if !s.settled() && !s.failed() {
		s.violate("the leader did not last: %s", s.opinions())
	}
}

// stop stops everything and checks that nothing is left.
func (s *simulation) stop() {
	for _, c := range s.candidates {
		c.store.Faults().Heal()
		c.store.Faults().Delay(0)
		c.stop()
	}
	for _, f := range s.followers {
		f.stop()
	}
	s.nothingLeft()
	_ = s.observer.Close()
}
