package demo

import (
	"context"
	"os"
	"slices"
	"syscall"
	"time"
)

const (
	election = "leadership-demo"
	follower = "follower"
	// patience is how long the demo waits, beyond a bound if there is one, before it gives up.
	patience = 30 * time.Second
)

// candidates are the processes that stand, in the order in which they enter the queue. cast are all processes.
var (
	candidates = []string{"a", "b", "c"}
	cast       = append(slices.Clone(candidates), follower)
)

// turn is one leader's, and how it came to be.
type turn struct {
	after  string    // what was done: "kill a"
	began  time.Time // when
	bound  time.Duration
	due    string        // who leads next: the second in line
	leader string        // who it was; empty while none is elected
	token  uint64        // of its term
	took   time.Duration // from what was done to the election
	knew   time.Duration // from what was done until the follower knew of it; 0 before
}

// play is the whole story. Once there is an error, no step does anything.
func (s *scene) play(ctx context.Context) error {
	s.begin(ctx)
	for _, act := range []func(context.Context, *process){s.kill, s.freeze, s.resign} {
		s.pause(ctx)
		if s.err != nil {
			break
		}
		act(ctx, s.processes[s.leader])
	}
	s.pause(ctx)
	return s.err
}

// pause shows the queue, and gives time to read.
func (s *scene) pause(ctx context.Context) {
	s.until(ctx, patience, "the leader to be the first in line", func() bool {
		return len(s.queue) > 0 && s.queue[0] == s.leader
	})
	s.note(time.Now(), "queue: %s", join(s.queue))
	end := time.Now().Add(s.pace)
	s.until(ctx, s.pace+patience, "a pause to end", func() bool { return !time.Now().Before(end) })
}

// begin starts the follower, and the candidates in their order.
func (s *scene) begin(ctx context.Context) {
	s.note(time.Now(), "three candidates and a follower on %s", s.address)
	// Candidates of a run that was interrupted go when their sessions end.
	s.until(ctx, s.bounds.kill+patience, "the candidates to go that stand in election "+election, func() bool {
		return s.queue != nil && len(s.queue) == 0
	})
	s.start(follower)
	s.change(ctx, turn{after: "start", due: candidates[0]}, func() {
		for _, name := range candidates {
			s.enter(ctx, name)
		}
	})
}

// enter starts a candidate and waits until it is the last in line.
func (s *scene) enter(ctx context.Context, name string) {
	s.start(name)
	s.last(ctx, name)
}

func (s *scene) last(ctx context.Context, name string) {
	s.until(ctx, patience, name+" to be the last in line", func() bool {
		return len(s.queue) > 0 && s.queue[len(s.queue)-1] == name
	})
}

// kill kills the leader, and starts it again behind all others.
func (s *scene) kill(ctx context.Context, leader *process) {
	s.change(ctx, turn{after: "kill " + leader.name, bound: s.bounds.kill}, func() {
		s.leader = ""
		s.hit(leader, os.Kill, killed, "kills %s (SIGKILL)")
	})
	s.enter(ctx, leader.name)
}

// freeze freezes the leader, and wakes it when the next one leads. It has to stand again, behind all others.
func (s *scene) freeze(ctx context.Context, leader *process) {
	s.change(ctx, turn{after: "freeze " + leader.name, bound: s.bounds.freeze}, func() {
		s.hit(leader, signals.freeze, frozen, "freezes %s (SIGSTOP)")
	})
	s.pause(ctx)
	s.hit(leader, signals.thaw, woken, "wakes %s (SIGCONT)")
	s.until(ctx, patience, leader.name+" to see that it leads no longer", func() bool {
		said := func(e event) bool { return e.What == woke }
		return leader.fate == "" && slices.ContainsFunc(s.logged, said)
	})
	s.last(ctx, leader.name)
}

// resign tells the leader to end, which it does in order: it resigns.
func (s *scene) resign(ctx context.Context, leader *process) {
	s.change(ctx, turn{after: "end " + leader.name, bound: s.bounds.resign}, func() {
		s.hit(leader, syscall.SIGTERM, resigned, "ends %s (SIGTERM), so that it resigns")
	})
	s.until(ctx, patience, leader.name+" to end", func() bool { return leader.fate == gone })
}

// hit sends a signal to a process, and shows what that does to it.
func (s *scene) hit(p *process, sig os.Signal, fate, format string) {
	if s.err != nil {
		return
	}
	at := time.Now()
	s.err = p.signal(sig)
	p.fate = fate
	s.note(at, format, p.name)
}

// change does something that changes the leader, and waits until the next one leads and the follower knows of it.
func (s *scene) change(ctx context.Context, t turn, do func()) {
	if s.err != nil {
		return
	}
	t.began = time.Now().Round(0)
	if len(s.queue) > 1 {
		t.due = s.queue[1]
	}
	s.turns = append(s.turns, t)
	do()
	next := s.turn()
	s.until(ctx, t.bound+patience, "the next leader", func() bool { return next.leader != "" })
	s.until(ctx, patience, "the follower to know of the next leader", func() bool { return next.knew > 0 })
	if t.bound > 0 {
		s.note(time.Now(), "%s: %s led after %s, the bound is %v", t.after, next.leader, milliseconds(next.took), t.bound)
	}
}

// turn returns the latest turn, an empty turn before the first.
func (s *scene) turn() *turn {
	if len(s.turns) == 0 {
		return &turn{}
	}
	return &s.turns[len(s.turns)-1]
}
