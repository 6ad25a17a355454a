package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/status"
	"github.com/go-leadership/leadership/store"
)

// withdrawal is how long a runner that is asked to end waits until the store has confirmed that its ballot is gone.
const withdrawal = 3 * time.Second

// runner runs a command while it leads. Signals, timers and the service manager are served in the goroutine of run. The
// command is started, kept and stopped in that of Candidate.Run: see lead.
type runner struct {
	election, value string
	address         string        // of the store
	wait            time.Duration // how long to wait for the first term; 0: for ever
	linger          time.Duration // how long to keep the leadership after a command that has succeeded
	again           retries
	ready           readiness
	env             []string // of the command; a term adds its own
	start           startFunc
	least           time.Duration // of the lease, to start a command
	resignTimeout   time.Duration // of the command between SIGTERM and SIGKILL, while its lease goes on
	giveWayTo       []string
	fitness         *leadership.Fitness // nil without a check
	page            *status.Handler     // shows the candidate; nil without --listen
	signals         <-chan os.Signal
	terminal        bool // SIGHUP means that the terminal has gone
	manager         manager
	log             *slog.Logger
	store           store.Store

	bound    time.Duration // how long a ballot stands after its process has died, at most
	patience *patience     // nil without --wait; set by run, as is status
	status   func() leadership.Status

	mu       sync.Mutex
	command  process        // guarded by mu, as are all below: nil unless it runs
	starting bool           // the command is being started
	held     []os.Signal    // which came meanwhile
	led      bool           // a term had time to start the command
	asked    syscall.Signal // the first that asked the runner or its command to end; 0 if none has
	leave    func(error)    // ends what attend waits for; called with mu locked, and does nothing the second time
	left     error          // what leave was called with first
	missed   error          // why the last turn ended before the command was started
	last     *outcome       // of this turn; nil if the command has not been started
}

// errOver ends a candidacy whose command has ended.
var errOver = errors.New("the command has ended")

// run stands for election, again and again if it is to. It returns when nothing of the command is left, and its ballot is
// gone or withdrawal is over.
func (r *runner) run() outcome {
	options := &leadership.CandidateOptions{Logger: r.log, Fitness: r.fitness, GiveWayTo: r.giveWayTo}
	if r.page != nil {
		options.Events = r.page.Event
	}
	candidate, err := leadership.NewCandidate(r.store, r.election, r.value, options)
	if err != nil {
		return broken(err)
	}
	if r.page != nil {
		r.page.Candidate(candidate)
	}
	r.status = candidate.Status
	if r.wait > 0 {
		r.patience = &patience{store: r.store, election: r.election, address: r.address, bound: r.bound, began: time.Now(), wait: r.wait, over: make(chan struct{})}
		ctx, cancel := context.WithCancel(context.Background())
		var waiting sync.WaitGroup
		waiting.Go(func() { r.patience.run(ctx, r.status) })
		defer waiting.Wait()
		defer cancel()
	}
	r.manager.tell("READY=1")
	defer r.manager.tell("STOPPING=1")
	for {
		began := time.Now()
		o := r.turn(candidate)
		asked := r.endAsked()
		delay, goesOn := r.again.next(o, asked != 0, time.Now(), time.Since(began))
		switch {
		case !goesOn && o.kind == missed: // the signal came while the ballot was given back
			return ended(interrupted{asked})
		case !goesOn:
			return o
		}
		if o.kind == missed {
			r.mu.Lock()
			r.missed = o.err
			r.mu.Unlock()
		}
		r.log.Info("will stand again", "in", delay, "because", o.reason())
		r.manager.tell("STATUS=Stands again in %v: %s", delay, o.reason())
		if o := r.sleep(delay); o.kind == final {
			return o
		}
	}
}

// endAsked returns the first signal that has asked the runner, or its command, to end; 0 if none has.
func (r *runner) endAsked() syscall.Signal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

// turn stands for election until the command has run once.
func (r *runner) turn(candidate *leadership.Candidate) outcome {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	r.begin(cancel)
	r.manager.tell("STATUS=Waits for its turn in election %q", r.election)
	over := make(chan outcome, 1)
	go func() {
		err := candidate.Run(ctx, func(ctx context.Context, term *leadership.Term) error {
			o := r.lead(term)
			r.finish(o)
			if o.kind == exited && o.code == 0 && r.linger > 0 && r.endAsked() == 0 {
				r.keep(ctx)
			}
			term.End(nil) // before leaving: Run gives the ballot back
			r.leaveAs(errOver)
			return nil
		})
		o, cause := r.outcome(), context.Cause(ctx)
		switch {
		case o != nil:
			over <- *o
		case cause == nil: // it is permanent
			over <- broken(err)
		default:
			over <- ended(cause)
		}
	}()
	return r.attend(over)
}

// sleep waits for the delay. If a signal or the end of the patience comes first, it returns a final outcome.
func (r *runner) sleep(delay time.Duration) outcome {
	over := make(chan outcome, 2)
	r.begin(func(cause error) { over <- ended(cause) }) // is called once
	timer := time.AfterFunc(delay, func() { over <- outcome{} })
	defer timer.Stop()
	return r.attend(over)
}

// begin begins something that leave ends.
func (r *runner) begin(leave func(error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last, r.left = nil, nil
	r.leave = func(cause error) {
		if r.left == nil {
			r.left = cause
			leave(cause)
		}
	}
}

// finish notes how the command has ended, unless the turn has been left before. A signal that comes from now on does not
// change that.
func (r *runner) finish(o outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.command = nil
	if r.left == nil {
		r.last = &o
	}
}

// keep keeps the leadership for a while after the command, so that those who wait with --wait give up. It returns early if a
// signal asks for the end, or the term ends: the outcome is the command's.
func (r *runner) keep(term context.Context) {
	r.log.Info("the command has succeeded, the leadership is kept", "for", r.linger)
	r.manager.tell("STATUS=Has run the command in election %q, keeps the leadership for %v", r.election, r.linger)
	timer := time.NewTimer(r.linger)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-term.Done():
		r.log.Warn("the leadership was not kept until --linger was over: another machine might run the command again", "because", context.Cause(term))
	}
}

// leaveAs ends the turn.
func (r *runner) leaveAs(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leave(cause)
}

func (r *runner) outcome() *outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// attend serves signals, timers and the service manager until there is an outcome. Once the runner leaves, it waits no
// longer than withdrawal, and no longer than until the next signal that asks for the end.
func (r *runner) attend(over <-chan outcome) outcome {
	pulse, stop := r.manager.pulse()
	defer stop()
	var impatient <-chan struct{}
	if r.patience != nil {
		impatient = r.patience.over
	}
	var leaving error
	var limit <-chan time.Time
	for {
		var cause error
		select {
		case o := <-over:
			return o
		case s := <-r.signals:
			cause = r.onSignal(s)
		case <-impatient:
			impatient = nil
			cause = r.onPatience()
		case <-pulse:
			r.manager.tell("WATCHDOG=1")
			continue
		case <-limit:
			cause = leaving
		}
		switch {
		case cause == nil:
		case leaving == nil:
			timer := time.NewTimer(withdrawal)
			defer timer.Stop()
			leaving, limit = cause, timer.C
		default:
			r.log.Warn("could not confirm that the ballot was removed; it is gone when its session has expired")
			if o := r.outcome(); o != nil {
				return *o
			}
			return ended(leaving)
		}
	}
}

// onPatience ends a candidacy that has never led, and returns why, or nil if it has. While the command is being started
// that is not known: if there is no time to start it, patience is over as the next wait begins.
func (r *runner) onPatience() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.led || r.starting {
		return nil
	}
	why := r.patience.because(r.status(), r.missed)
	r.leave(why)
	return why
}
