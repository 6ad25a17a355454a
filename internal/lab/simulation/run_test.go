package simulation_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/memory"
	"github.com/go-leadership/leadership/operate"
	"github.com/go-leadership/leadership/store"
)

// The simulation's times. A step is the time between two checks of everything; hooks see what happens in between.
const (
	simTTL    = 3 * time.Second
	simGrace  = simTTL / 3
	simStep   = 37 * time.Millisecond
	simEvents = 50
	// simBound is how long after all faults have healed there is a leader that all followers know. Sessions that were
	// not ended expire, late; then the longest back-off passes; then the slowest line delivers.
	simBound = simTTL + simDelay + 5*time.Second + 6*simDelay
	simDelay = simTTL / 2
	simLate  = 2 * simTTL // how late a request might be carried out whose answer never came
	// simDrift is how much a clock might be too fast or too slow. The grace is a third of the TTL. If the holder's
	// clock is too slow and the other one too fast, a quarter of the TTL remains for the leader's work to stop.
	simDrift = 0.05
	simWork  = simTTL / 4
)

// simulation is one service, its members, and a schedule of faults drawn from a seed.
type simulation struct {
	*checks
	seed      int64
	watches   memory.Watches // how the members are told of changes
	peers     bool           // the members expire sessions, not the service
	rng       *rand.Rand
	early     bool // the store may end sessions and ballots early
	memory    *memory.Service
	processes []*simProcess
	followers []*simFollower
	operators sync.WaitGroup
	operating context.Context // ends when the operators are killed
	kill      context.CancelFunc
}

// newSimulation draws a schedule. The seed decides about the service: it reports changes in one of three ways, or there
// is no server, the members expire each other, and changes are reported in any of these ways.
func newSimulation(seed int64, early bool, all *witnesses) *simulation {
	s := &simulation{seed: seed, rng: rand.New(rand.NewPCG(uint64(seed), 1)), early: early, memory: memory.NewService()}
	s.operating, s.kill = context.WithCancel(background)
	s.watches, s.peers = memory.Watches(seed%4), seed%4 == 3
	if s.peers {
		s.watches = memory.Watches(seed / 4 % 3)
	}
	s.memory.SetClock(s.someClock())
	s.checks = newChecks(s, all)
	for i := range 3 + s.rng.IntN(3) {
		s.processes = append(s.processes, newSimProcess(s, string(rune('a'+i))))
	}
	for i := range 1 + s.rng.IntN(2) {
		s.followers = append(s.followers, &simFollower{simLine: newSimLine(s, fmt.Sprint("follower ", i))})
	}
	return s
}

// someClock draws the rate of a clock.
func (s *simulation) someClock() float64 { return 1 + simDrift*(2*s.rng.Float64()-1) }

// run runs the schedule, lets everything heal, and stops everything.
func (s *simulation) run() {
	for _, p := range s.processes {
		p.start()
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

// gap is the time between two events: mostly very short, sometimes enough for sessions to expire.
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

// pass lets time pass, and checks everything in each step.
func (s *simulation) pass(d time.Duration) {
	for end := time.Now().Add(d); ; {
		synctest.Wait()
		s.checkAtRest()
		left := time.Until(end)
		if left <= 0 || s.failed() {
			return
		}
		time.Sleep(min(left, simStep))
	}
}

// event does one thing to one member.
func (s *simulation) event() {
	i := s.rng.IntN(len(s.processes) + len(s.followers))
	if i >= len(s.processes) {
		f := s.followers[i-len(s.processes)]
		if s.rng.IntN(6) == 0 {
			s.note("%s starts again", f.name)
			f.stop()
			f.start()
			return
		}
		f.fault()
		return
	}
	p := s.processes[i]
	c := p.candidates[s.rng.IntN(len(p.candidates))]
	switch n := s.rng.IntN(24); {
	case n < 2:
		s.note("%s resigns", c.name)
		c.run.Resign()
	case n < 4:
		s.note("%s is stopped, another stands instead of it", c.name)
		c.replace()
	case n < 6:
		s.note("%s starts again on a new store", p.name)
		p.stop()
		p.start()
	case n < 7:
		s.note("%s loses its store, and starts again on a new one", p.name)
		p.rude()
		_ = p.store.Close()
		p.stop()
		p.start()
	case n < 8:
		s.request()
	case n < 9:
		s.switchOver()
	case n < 10:
		s.note("an impatient caller casts a ballot on %s's store", p.name)
		p.impatient()
	case s.early && n < 11:
		s.note("the election is cleared")
		s.memory.Clear(election)
	case s.early && n < 12:
		if list, _ := s.service(); len(list) > 0 {
			b := list[s.rng.IntN(len(list))]
			s.note("the ballot of %s, %d, is deleted", b.Value, b.Token)
			s.memory.Delete(election, b.Token)
		}
	case s.early && n < 14:
		s.note("%s's session expires early", p.name)
		p.store.Faults().Expire()
	default:
		p.fault()
	}
}

// request asks a candidate to resign, most often the leader.
func (s *simulation) request() {
	list, _ := s.service()
	if len(list) == 0 {
		return
	}
	b := list[max(0, s.rng.IntN(2*len(list))-len(list))]
	s.note("%s, %d, is asked to resign", b.Value, b.Token)
	if err := s.observer.RequestResignation(background, election, b.Token); err != nil {
		s.violate("can't ask %s to resign: %v", b.Value, err)
	}
}

// switchOver makes an operator switch over to any of those who stand. The operator is killed after some of its requests,
// or after some time, or neither.
func (s *simulation) switchOver() {
	list, _ := s.service()
	if len(list) == 0 {
		return
	}
	target := list[s.rng.IntN(len(list))]
	left := s.rng.IntN(2 * len(list))
	ctx, kill := context.WithTimeout(s.operating, time.Duration(s.rng.Int64N(int64(3*simTTL))))
	s.note("an operator switches over to %s, %d, and is killed after %d requests", target.Value, target.Token, left)
	s.operators.Go(func() {
		defer kill()
		o, err := operate.SwitchOver(ctx, &killed{s.observer, kill, left}, election, target.Token)
		s.note("the operator has come to an end: %v", err)
		if err != nil {
			return
		}
		s.switched()
		if q := o.After.Ballots; len(q) == 0 || q[0].Token != target.Token {
			s.violate("the operator says that %d leads, and has seen %v", target.Token, q)
		}
	})
}

// killed is the store of an operator that is killed after some requests.
type killed struct {
	store.Store
	kill func()
	left int
}

func (k *killed) RequestResignation(ctx context.Context, election string, token uint64) error {
	if k.left == 0 {
		k.kill()
	}
	k.left--
	return k.Store.RequestResignation(ctx, election, token)
}

// heal ends all faults and waits for a leader that all followers know.
func (s *simulation) heal() {
	if s.failed() {
		return
	}
	s.note("everything heals")
	s.kill()
	s.operators.Wait()
	s.stable.Store(true)
	for _, p := range s.processes {
		p.healAll()
	}
	for _, f := range s.followers {
		f.healAll()
	}
	bound := simBound
	if list, _ := s.service(); s.peers { // each waits for the one ahead, and asks for its session every quarter of the TTL
		bound += time.Duration(len(list)) * 2 * simTTL
	}
	for end := time.Now().Add(bound); !s.agreed(); s.pass(simStep) {
		if s.failed() {
			return
		}
		if time.Now().After(end) {
			s.violate("no leader that all followers know %v after everything had healed: %s", bound, s.opinions())
			return
		}
	}
	s.pass(2 * simTTL)
	if !s.agreed() && !s.failed() {
		s.violate("the leader did not last: %s", s.opinions())
	}
}

// stop stops everything and checks that nothing is left.
func (s *simulation) stop() {
	s.kill()
	s.operators.Wait()
	for _, p := range s.processes {
		p.healAll()
		p.stop()
	}
	for _, f := range s.followers {
		f.stop()
	}
	s.nothingLeft()
	_ = s.observer.Close()
}
