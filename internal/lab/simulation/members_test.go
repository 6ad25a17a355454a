package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/callbacks"
	"github.com/go-leadership/leadership/channels"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
)

// simProcess is a process with one candidate, or two that share its store and so its session.
type simProcess struct {
	simLine
	candidates []*simCandidate
}

// simCandidate starts again and again, each time with another value.
type simCandidate struct {
	process   *simProcess
	name      string
	primitive bool // it is driven by Campaign
	form      func(r *simRun)
	made      int
	run       *simRun
	ended     chan struct{} // closed when the driver has returned
}

// simRun is one start of a candidate. Only its driver uses rng.
type simRun struct {
	*channels.Candidate
	sim       *simulation
	value     string
	rng       *rand.Rand
	takeovers *rand.Rand
	ctx       context.Context // for the caller of Campaign, who is asked to end before Stop
	cancel    context.CancelFunc
	rude      atomic.Bool // its ballot may go while its leader's function still runs
}

func newSimProcess(s *simulation, name string) *simProcess {
	p := &simProcess{simLine: newSimLine(s, name)}
	p.candidates = append(p.candidates, newSimCandidate(p, name))
	if s.rng.IntN(3) == 0 {
		p.candidates = append(p.candidates, newSimCandidate(p, name+"'"))
	}
	return p
}

func newSimCandidate(p *simProcess, name string) *simCandidate {
	c := &simCandidate{process: p, name: name}
	switch p.sim.rng.IntN(4) {
	case 0, 1:
		c.form = (*simRun).byRun
	case 2:
		c.form = (*simRun).byChannel
	default:
		c.form, c.primitive = (*simRun).byCampaign, true
	}
	return c
}

// start opens a store and stands for election on it.
func (p *simProcess) start() {
	p.open()
	for _, c := range p.candidates {
		c.stand()
	}
}

// stop stops the candidates and closes their store.
func (p *simProcess) stop() {
	for _, c := range p.candidates {
		c.end()
	}
	_ = p.store.Close()
}

// impatient casts a ballot and stops waiting before a slow answer comes.
func (p *simProcess) impatient() {
	ctx, cancel := context.WithTimeout(background, time.Duration(p.sim.rng.Int64N(int64(simTTL/10))))
	defer cancel()
	if ballot, err := p.store.Cast(ctx, election, "impatient"); err == nil {
		_ = ballot.Withdraw(ctx)
	}
}

// rude notes that ballots might be removed while their leaders' functions still run.
func (p *simProcess) rude() {
	for _, c := range p.candidates {
		c.run.rude.Store(true)
	}
}

func (c *simCandidate) stand() {
	c.made++
	s := c.process.sim
	r := &simRun{sim: s, value: fmt.Sprint(c.name, c.made)}
	stream := uint64(c.name[0])<<32 + uint64(len(c.name))<<24 + uint64(c.made)
	r.rng = rand.New(rand.NewPCG(uint64(s.seed), stream))
	r.takeovers = rand.New(rand.NewPCG(uint64(s.seed), ^stream))
	r.ctx, r.cancel = context.WithCancel(background)
	var err error
	r.Candidate, err = channels.NewCandidate(c.process.store, election, r.value, &leadership.CandidateOptions{Logger: slog.New(slog.DiscardHandler), Events: s.events(r)})
	if err != nil {
		panic(err)
	}
	s.stands(r)
	c.run, c.ended = r, make(chan struct{})
	go func() {
		defer close(c.ended)
		c.form(r)
	}()
}

// replace stops the candidate and makes another one on the same store.
func (c *simCandidate) replace() {
	c.end()
	c.stand()
}

func (c *simCandidate) end() {
	c.run.cancel()
	if c.primitive {
		<-c.ended
	}
	halt(c.run)
	<-c.ended
	c.process.sim.stood(c.run)
}

// byRun leads. When the term ends it takes some time to stop working, but not more than simWork.
func (r *simRun) byRun() {
	err := r.Run(background, func(ctx context.Context, term *leadership.Term) error {
		r.sim.working(r, +1)
		defer r.sim.working(r, -1)
		err := r.takeOver(ctx, term)
		if err == nil {
			r.tenure(ctx)
		}
		time.Sleep(time.Duration(r.rng.Int64N(int64(simWork))))
		if errors.Is(err, errTakeover) {
			return err
		}
		return nil
	})
	r.sim.ended(r, err)
}

// takeOver takes some time to take over, and sometimes fails.
func (r *simRun) takeOver(ctx context.Context, term *leadership.Term) error {
	r.sim.wins(r, term.Token())
	r.sim.rest(ctx, r.takeovers.Int64N(int64(simTTL/4)))
	if r.takeovers.IntN(8) == 0 && !r.sim.stable.Load() {
		return errTakeover
	}
	return term.Acknowledge(ctx)
}

// tenure leads until the term ends, or until the leader resigns.
func (r *simRun) tenure(ctx context.Context) {
	if enough := r.rng.Int64N(int64(8 * simTTL)); r.rng.IntN(2) == 0 {
		r.sim.rest(ctx, enough)
		if !r.sim.stable.Load() {
			return
		}
	}
	<-ctx.Done()
}

// byChannel reads the events, sometimes slowly. They alternate, except for a false that replaced an unread true.
func (r *simRun) byChannel() {
	elected, errs := r.RunForElection()
	last, first := false, true
	for leads := range elected {
		if first && leads {
			r.sim.violate("%s: the first event is true", r.value)
		}
		if leads && last {
			r.sim.violate("%s: true follows true", r.value)
		}
		last, first = leads, false
		if r.rng.IntN(4) == 0 {
			time.Sleep(time.Duration(r.rng.Int64N(int64(simTTL))))
		}
	}
	if last {
		r.sim.violate("%s: the last event is true", r.value)
	}
	var err error
	for err = range errs {
	}
	if !store.Permanent(err) {
		err = nil // a temporary error
	}
	r.sim.ended(r, err)
}

// byCampaign uses Campaign.
func (r *simRun) byCampaign() {
	for {
		term, err := r.Campaign(r.ctx)
		if r.ctx.Err() != nil || errors.Is(err, leadership.ErrStopped) || errors.Is(err, leadership.ErrClosed) {
			if term != nil {
				r.giveUp(term)
			}
			r.sim.ended(r, nil)
			return
		}
		if err != nil {
			r.sim.rest(r.ctx, r.rng.Int64N(int64(simTTL/4)))
			continue
		}
		r.sim.working(r, +1)
		ctx, cancel := term.Bind(r.ctx)
		if err := r.takeOver(ctx, term); err == nil {
			r.tenure(ctx)
		}
		cancel()
		time.Sleep(time.Duration(r.rng.Int64N(int64(simWork))))
		r.sim.working(r, -1)
		r.giveUp(term)
	}
}

func (r *simRun) giveUp(term *leadership.Term) {
	ctx, cancel := context.WithTimeout(background, simTTL/4)
	defer cancel()
	_ = term.Withdraw(ctx)
}

// simFollower is a process with a follower.
type simFollower struct {
	simLine
	*leadership.Follower
	calls   sync.WaitGroup
	highest uint64       // revision that Leader has shown
	asOf    time.Time    // what AsOf has shown
	pause   atomic.Int64 // how long after the beginning it does not ask
}

func (f *simFollower) start() {
	s := f.sim
	f.open()
	f.highest, f.asOf = 0, time.Time{}
	st := f.store                  // the next start makes it another
	for i := range s.rng.IntN(5) { // elections that are of no interest, but cost the store requests
		go func() { _, _ = storetest.Leader(background, st, fmt.Sprint("other/", i), &store.Leader{}) }() // until it is closed
	}
	var err error
	if f.Follower, err = leadership.NewFollower(f.store, election, &leadership.FollowerOptions{Logger: slog.New(slog.DiscardHandler), Events: f.event}); err != nil {
		panic(err)
	}
	var last uint64
	gone := false
	calls := callbacks.Follower{
		NewLeader: func(_ context.Context, leader leadership.Leader) {
			if leader.Revision <= last {
				s.violate("%s: the callback was told of revision %d after %d", f.name, leader.Revision, last)
			}
			if last != 0 && !gone {
				s.violate("%s: no death between two leaders", f.name)
			}
			last, gone = leader.Revision, false
			s.notified(f.name, leader)
		},
		LeaderGone: func(context.Context) {
			if gone {
				s.violate("%s: two deaths without a leader between them", f.name)
			}
			gone = true
		},
	}
	f.calls.Go(func() { _ = callbacks.Follow(background, f.Follower, calls) })
}

// event notes for how long the follower does not ask, because a request was denied or the first answer did not come.
func (f *simFollower) event(e leadership.Event) {
	if e.Kind == leadership.AttemptFailed {
		f.pause.Store(int64(time.Since(f.sim.began) + e.RetryIn))
	}
}

func (f *simFollower) stop() {
	halt(f)
	f.calls.Wait()
	_ = f.store.Close()
}
