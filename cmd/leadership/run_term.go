package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/cmd/leadership/internal/guard"
	"github.com/go-leadership/leadership/store"
)

// process is what a runner uses of a guard.Process.
type process interface {
	Renew(lease func() time.Duration) error
	Signal(s syscall.Signal) error
	Stop(timeout time.Duration)
	Kill()
	Run(ctx context.Context, command []string) (code int, err error)
	Wait() guard.Result
}

// spec is what a term adds to the configuration of the guard.
type spec struct {
	env   []string
	files []*os.File // of the command, from descriptor 3 on
	keep  []*os.File // of those that guard it
}

// startFunc starts the command under a lease.
type startFunc func(s spec, lease func() time.Duration) (process, error)

// lead runs the command in a term. It returns when nothing of the command is left. If the turn has been left, it starts
// none: run does not wait for that one. Unless a flag says when the command has taken over, the leader is public before
// the command runs: the command might ask who leads.
func (r *runner) lead(term *leadership.Term) outcome {
	ballot := term.Ballot() // its lease goes on if an operator ends the term: the command is guarded until it has ended
	var renewal store.Renewal
	var err error
	if !r.ready.flagged() {
		err = acknowledge(term.Context(), term)
	}
	if err == nil {
		renewal, err = r.fresh(term, ballot)
	}
	if left := r.enter(); left != nil {
		return ended(left)
	}
	var command process
	var ready *readySignal
	if err == nil {
		command, ready, err = r.startIn(term, ballot)
	}
	var not outcome
	if err != nil {
		not = notStarted(err, term)
	}
	r.started(command, not.kind == missed)
	if err != nil {
		return not
	}
	defer ready.close()
	r.log.Info("command started", "token", term.Token())
	return r.guard(term, ballot, renewal, command, func(ctx context.Context) error {
		r.manager.tell("STATUS=Leads election %q with token %d", r.election, term.Token())
		if err := r.ready.await(ctx, command, ready); err != nil {
			return err
		}
		return acknowledge(ctx, term)
	})
}

// acknowledge makes the leader public. After the first time it does nothing.
func acknowledge(ctx context.Context, term *leadership.Term) error {
	err := term.Acknowledge(ctx)
	if err != nil {
		err = fmt.Errorf("acknowledge the leadership: %w", err)
	}
	return err
}

// enter notes that the command is being started. If the turn has been left, it returns why.
func (r *runner) enter() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left == nil {
		r.starting = true
	}
	return r.left
}

// fresh waits until enough of the lease is left to start the command, and returns its last renewal: a candidate might be
// elected when a renewal is late. It returns an error if the term is over.
func (r *runner) fresh(term *leadership.Term, ballot store.Ballot) (store.Renewal, error) {
	for {
		renewal := ballot.Lease().Last() // before the lease is read, so that no renewal is missed
		if term.Context().Err() == nil && ballot.Lease().Remaining() >= r.least {
			return renewal, nil
		}
		select {
		case <-renewal.Changed:
		case <-term.Context().Done():
			return renewal, context.Cause(term.Context())
		}
	}
}

// startIn starts the command. If the session would end with this process, those that guard the command keep it: no other
// candidate leads before they are gone, and the command with them.
func (r *runner) startIn(term *leadership.Term, ballot store.Ballot) (command process, ready *readySignal, err error) {
	if ready, err = r.ready.begin(); err != nil {
		return nil, nil, err
	}
	defer func() {
		ready.started()
		if err != nil {
			ready.close()
		}
	}()
	s := spec{env: slices.Concat(r.env, []string{fmt.Sprintf("LEADERSHIP_TOKEN=%d", term.Token())}, ready.env()), files: ready.files()}
	file, err := ballot.SessionFile()
	if err != nil {
		return nil, nil, err
	}
	if file != nil {
		defer file.Close()
		s.keep = append(s.keep, file)
	}
	command, err = r.start(s, ballot.Lease().Remaining)
	return command, ready, err
}

// notStarted is the outcome of a term whose command could not be started. If that was for want of time, the runner has
// not led.
func notStarted(err error, term *leadership.Term) outcome {
	var exec *guard.ExecError
	over := context.Cause(term.Context())
	switch {
	case errors.As(err, &exec):
		return outcome{failed, exec.Code(), err}
	case over != nil:
		return outcome{kind: missed, err: fmt.Errorf("the command was not started: %w", over)}
	case errors.Is(err, guard.ErrLate):
		return outcome{kind: missed, err: fmt.Errorf("the command was not started: %w", err)}
	}
	return outcome{failed, failureCode(err), err}
}

// guard lets the command run while the term goes on. It stops the command when the term ends or the takeover has failed.
// It passes on renewals until the command has ended: an operator who asks for a resignation ends the term, and not the
// lease.
func (r *runner) guard(term *leadership.Term, ballot store.Ballot, renewal store.Renewal, command process, takeOver func(context.Context) error) outcome {
	ctx, cancel := context.WithCancel(term.Context())
	defer cancel()
	results, taken := make(chan guard.Result, 1), make(chan error, 1)
	go func() { results <- command.Wait() }()
	go func() { taken <- takeOver(ctx) }()
	var over, refused error // why the term, and the takeover, ended
	var stopped time.Time   // when the command was asked to stop; zero before that
	stop := func() {
		if stopped.IsZero() {
			stopped = time.Now()
			command.Stop(r.resignTimeout)
		}
	}
	ends, gone := term.Context().Done(), ballot.Lost()
	kill := sync.OnceFunc(command.Kill) // another candidate might lead soon
	for {
		select {
		case <-renewal.Changed:
			if renewal = ballot.Lease().Last(); renewal.Deadline.IsZero() {
				break
			}
			if err := command.Renew(ballot.Lease().Remaining); err != nil {
				r.log.Debug("the renewal was not passed on", "error", err)
			}
		case <-gone:
			gone = nil
			if over == nil { // the term is about to end, too
				over = ballot.Err()
			}
			kill()
		case <-ends:
			ends, over = nil, context.Cause(term.Context())
			if errors.Is(over, leadership.ErrLost) {
				kill()
			} else {
				stop()
			}
		case err := <-taken:
			taken = nil
			if err != nil && term.Context().Err() == nil {
				refused = err
				r.log.Error("the takeover has failed, the command is stopped", "error", err)
				stop()
			}
		case result := <-results:
			cancel()
			if taken != nil {
				<-taken
			}
			r.logKill(result, stopped)
			return verdict(result, over, refused)
		}
	}
}

// logKill says that the command was killed since it had not stopped in time.
func (r *runner) logKill(result guard.Result, stopped time.Time) {
	switch {
	case result.Signal != syscall.SIGKILL:
	case !stopped.IsZero():
		r.log.Warn("the command was killed: it had not stopped in time", "after", time.Since(stopped).Round(time.Millisecond), "resign_timeout", r.resignTimeout)
	case result.Cause == guard.Deadline:
		r.log.Warn("the command was killed: it had not stopped within --stop-timeout, before the end of its lease")
	}
}

// verdict is the outcome of a command that has ended. over and refused are why its term and its takeover had ended
// before, or nil.
func verdict(result guard.Result, over, refused error) outcome {
	switch {
	case refused != nil:
		return outcome{failed, failureCode(refused), fmt.Errorf("the takeover has failed: %w", refused)}
	case over != nil:
		return outcome{lost, exitLost, fmt.Errorf("the command was stopped: %w", over)}
	case result.Cause == guard.Deadline:
		return outcome{lost, exitLost, fmt.Errorf("the command was stopped: %w: %s", leadership.ErrLost, result.Cause)}
	case result.Cause == guard.GuardianDied:
		return outcome{failed, exitFailed, fmt.Errorf("the command was killed: %s", result.Cause)}
	}
	return outcome{kind: exited, code: result.Code}
}
