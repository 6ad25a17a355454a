package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/go-leadership/leadership/store"
)

const (
	// resignBound is from SIGTERM to the successor's election. The hand-over is one notification, a few milliseconds;
	// the rest is for a process that has to wait for a processor.
	resignBound = time.Second
	// patience is how long the demo waits for what has no bound, or has missed it, before it gives up.
	patience = 30 * time.Second

	election = "demo"
	follower = "follower"
)

// candidates are the processes that stand, in the order in which they enter the queue: each of them leads once.
var candidates = []string{"a", "b", "c"}

// demo is a scene on which play is given.
type demo struct {
	program     string // the example
	url         string
	store       store.Store
	crashBound  time.Duration
	resignBound time.Duration
	journal     *journal
	processes   map[string]*process     // by name, the latest
	fail        context.CancelCauseFunc // ends the play, with the reason
	changes     []change                // so far
}

// change is a change of leader.
type change struct {
	what     string // it happened after
	leader   string
	token    uint64
	elected  time.Time
	took     time.Duration // from what happened to the election
	bound    time.Duration // on took; 0 if there is none
	followed time.Duration // from the election to the follower's hearing of it; 0 if it has not
}

// play is the whole story.
func (d *demo) play(ctx context.Context) error {
	if err := d.start(follower, "follower"); err != nil {
		return err
	}
	leader, err := d.change(ctx, "start", 0, func(ctx context.Context) error {
		for _, name := range candidates {
			if err := d.enter(ctx, name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}

	crashed := d.processes[leader]
	leader, err = d.change(ctx, "SIGKILL to "+leader, d.crashBound, func(context.Context) error {
		return crashed.signal(syscall.SIGKILL)
	})
	if err != nil {
		return err
	}
	if err := d.enter(ctx, crashed.name); err != nil { // it is going to wait behind those who waited meanwhile
		return err
	}

	resigned := d.processes[leader]
	if _, err = d.change(ctx, "SIGTERM to "+leader, d.resignBound, func(context.Context) error {
		return resigned.signal(syscall.SIGTERM)
	}); err != nil {
		return err
	}
	return resigned.awaitSuccess(ctx)
}

// enter starts a candidate and waits until its ballot is the last in the queue.
func (d *demo) enter(ctx context.Context, name string) error {
	if err := d.start(name, "candidate"); err != nil {
		return err
	}
	ctx, cancel := patient(ctx, 0, "%s's ballot", name)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		queue, err := d.store.Ballots(ctx, election)
		if n := len(queue); err == nil && n > 0 && queue[n-1].Value == name {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// change makes something happen that changes the leader, and waits until the next one leads and the follower has
// heard of a leader once more. It returns who leads.
func (d *demo) change(
	ctx context.Context, what string, bound time.Duration, happen func(context.Context) error,
) (leader string, err error) {
	began := d.journal.note(what)
	if err := happen(ctx); err != nil {
		return "", err
	}
	n := len(d.changes) + 1
	waiting, cancel := patient(ctx, bound, "leader %d to be elected after %s", n, what)
	defer cancel()
	elected, err := d.journal.await(waiting, n, event.elected)
	if err != nil {
		return "", err
	}
	token, _ := elected.token()
	d.changes = append(d.changes, change{
		what: what, leader: elected.who, token: token,
		elected: elected.at, took: elected.at.Sub(began), bound: bound,
	})
	waiting, cancel = patient(ctx, 0, "the follower to hear of leader %d, %s", n, elected.who)
	defer cancel()
	seen, err := d.journal.await(waiting, n, event.leader)
	if err != nil {
		return "", err
	}
	d.changes[n-1].followed = seen.at.Sub(elected.at)
	return elected.who, nil
}

// patient returns a context for waiting for something that should happen within bound. It ends with patience.
func patient(ctx context.Context, bound time.Duration, format string, args ...any) (context.Context, context.CancelFunc) {
	limit := bound + patience
	return context.WithTimeoutCause(ctx, limit,
		fmt.Errorf("waited %v in vain for %s", limit, fmt.Sprintf(format, args...)))
}
