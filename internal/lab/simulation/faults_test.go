package simulation_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/memory"
	"github.com/go-leadership/leadership/store"
)

// simLine is the line between one process and the service, with its faults.
type simLine struct {
	sim   *simulation
	name  string
	clock float64 // of the process
	store *memory.Store

	opened int
	broken bool          // requests or notifications might not get through
	trip   time.Duration // from a request to its answer, while it is not broken
	since  time.Time     // when this state began
}

func newSimLine(s *simulation, name string) simLine {
	return simLine{sim: s, name: name, clock: s.someClock()}
}

// open opens the store of a process that has started.
func (l *simLine) open() {
	s := l.sim
	st, err := memory.Open(s.memory, &memory.Config{
		TTL: simTTL, Grace: simGrace, Watches: s.watches, Peers: s.peers, Clock: l.clock,
	})
	if err != nil {
		panic(err)
	}
	l.store, l.broken, l.trip, l.since = st, false, 0, time.Now()
	l.opened++
}

// now notes when the state of the line changed.
func (l *simLine) now(broken bool, trip time.Duration) {
	l.broken, l.trip, l.since = broken, trip, time.Now()
}

// fault changes one property of the line.
func (l *simLine) fault() {
	s, faults := l.sim, l.store.Faults()
	d := time.Duration(s.rng.Int64N(int64(simDelay)))
	switch n := s.rng.IntN(20); {
	case n < 3:
		s.note("%s is cut off", l.name)
		faults.Cut()
		l.now(true, l.trip)
	case n < 5:
		s.note("%s's replies are lost", l.name)
		faults.LoseReplies()
		l.now(true, l.trip)
	case n < 6:
		s.note("%s's watches stall", l.name)
		faults.Stall()
		l.now(l.broken, l.trip) // reads get through
	case n < 7:
		s.note("%s's watches fall silent", l.name)
		faults.Mute()
	case n < 8:
		s.note("%s is told everything twice", l.name)
		faults.Double()
	case n < 10:
		s.note("%s's line takes %v", l.name, d)
		faults.Delay(d)
		faults.DelayReplies(0)
		l.now(l.broken, 2*d)
	case n < 11:
		s.note("%s's replies take %v", l.name, 2*d)
		faults.Delay(0)
		faults.DelayReplies(2 * d)
		l.now(l.broken, 2*d)
	case n < 12:
		s.note("%s's member lags by %v", l.name, d)
		faults.Lag(d)
	case n < 13:
		s.note("%s's session ends %v later than its TTL", l.name, d)
		faults.DelayExpiry(d)
	case n < 16:
		s.note("%s's requests fail", l.name)
		faults.Decide(l.fates())
		l.now(true, l.trip)
	default:
		l.heal()
	}
}

// heal ends all faults except delays.
func (l *simLine) heal() {
	l.sim.note("%s's line heals", l.name)
	l.store.Faults().Heal()
	l.store.Faults().Decide(nil)
	l.now(false, l.trip)
}

// healAll ends all faults.
func (l *simLine) healAll() {
	f := l.store.Faults()
	l.heal()
	f.Delay(0)
	f.DelayReplies(0)
	f.Lag(0)
	f.DelayExpiry(0)
	l.now(false, 0)
}

// errFate is the error of requests that were not carried out.
var errFate = fmt.Errorf("%w: by fate", store.ErrUnavailable)

// fates decides on each request of the line: two of five pass.
func (l *simLine) fates() func() memory.Fate {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(uint64(l.sim.seed), l.sim.rng.Uint64()))
	return func() memory.Fate {
		mu.Lock()
		defer mu.Unlock()
		switch n := rng.IntN(50); {
		case n < 8:
			return memory.Fate{Err: errFate}
		case n < 9:
			return memory.Fate{Err: store.ErrDenied}
		case n < 14:
			return memory.Fate{Lost: true}
		case n < 22:
			return memory.Fate{Late: time.Duration(rng.Int64N(int64(simLate)))}
		case n < 30:
			return memory.Fate{Twice: true}
		}
		return memory.Fate{}
	}
}
