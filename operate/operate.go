// Package operate does to an election what an operator wants: it makes a leader step down, switches over to a named
// candidate, and holds an election, so that no candidate begins a term. The command leadership stands on it.
//
// It stores nothing but marks on ballots that stand, and ballots of its own. So what an operator leaves undone, since
// the program was killed say, goes with those ballots, and no key has to be cleared.
package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-leadership/leadership/internal/directive"
	"github.com/go-leadership/leadership/store"
)

// The reasons why an operation was not done; match them with errors.Is. The text says more.
var (
	// ErrNotStanding says that no such ballot stands. Nothing was done.
	ErrNotStanding = errors.New("no such ballot stands")
	// ErrForeign says that a ballot which would have to give way is one of another program's recipe: its owner takes no
	// requests. Nothing was done.
	ErrForeign = errors.New("a ballot of another program's recipe takes no requests to resign")
	// ErrHeld says that an operator holds the election: see [NewHold]. Nothing was done.
	ErrHeld = errors.New("the election is held")
	// ErrTargetGone says that the target of a switch-over has gone before its turn came. The leader was not asked: nothing
	// has changed but the order of those who wait.
	ErrTargetGone = errors.New("the candidate to switch over to has gone")
	// ErrNotDone says that the leader was asked, and the candidate that should lead does not yet.
	ErrNotDone = errors.New("not done yet")
)

// Queue is the ballots of an election, and its leader.
type Queue struct {
	Ballots []store.Standing // the first in line first
	Leader  store.Leader     // that has acknowledged; the zero Leader if none has
}

// Leads reports whether the first in line leads and has acknowledged.
func (q Queue) Leads() bool { return len(q.Ballots) > 0 && q.Leader.Revision != 0 }

// find returns the position of a ballot, 0 for the first in line, or -1.
func (q Queue) find(token uint64) int {
	return slices.IndexFunc(q.Ballots, func(b store.Standing) bool { return b.Token == token })
}

// Read reads the queue of an election. These are three requests; it reads again if the first in line has changed
// between them.
func Read(ctx context.Context, st store.Store, election string) (Queue, error) {
	q, _, err := read(ctx, st, election)
	return q, err
}

// read returns the queue, and what was known of its leader.
func read(ctx context.Context, st store.Store, election string) (q Queue, known store.Known, err error) {
	before, err := st.Ballots(ctx, election)
	for err == nil {
		if known, err = st.Observe(ctx, election, nil); err != nil {
			break
		}
		q := Queue{Leader: known.Leader}
		if q.Ballots, err = st.Ballots(ctx, election); err == nil && slices.Equal(first(before), first(q.Ballots)) {
			return q, known, nil
		}
		before = q.Ballots
	}
	return Queue{}, store.Known{}, err
}

func first(ballots []store.Standing) []store.Standing { return ballots[:min(len(ballots), 1)] }

// Outcome is what an operation has come to, also if it has returned an error.
type Outcome struct {
	Election string
	Before   Queue            // when it began
	After    Queue            // when it was read last, without the ballot of the switch-over itself
	Behind   []store.Standing // those that were asked to step behind the target, or the hold
	Took     time.Duration
}

// StepDown asks the owner of a ballot to resign, and waits until another ballot is first in line and has acknowledged.
// The owner's work is stopped first; then its ballot goes, so that no two leaders overlap. If no other candidate
// stands, the same one leads again, with a higher token.
//
// It refuses with ErrHeld, and does nothing, if a hold is next in line: there would be no leader.
//
// If ctx ends before that, StepDown returns ErrNotDone with its cause. The request stands nevertheless.
func StepDown(ctx context.Context, st store.Store, election string, token uint64) (o Outcome, err error) {
	defer o.begin(election)()
	if o.Before, err = Read(ctx, st, election); err != nil {
		return o, err
	}
	o.After = o.Before
	at := o.Before.find(token)
	switch {
	case at < 0:
		return o, fmt.Errorf("%w: %d in election %q", ErrNotStanding, token, election)
	case o.Before.Ballots[at].Foreign:
		return o, fmt.Errorf("%w: %d in election %q", ErrForeign, token, election)
	case at == 0 && len(o.Before.Ballots) > 1 && isHold(o.Before.Ballots[1]):
		return o, heldBy(election, o.Before.Ballots[1])
	}
	if err := st.RequestResignation(ctx, election, token); err != nil {
		return o, err
	}
	return o, o.await(ctx, st, election, func(q Queue) (bool, error) {
		return len(q.Ballots) > 0 && q.Ballots[0].Token != token, nil
	})
}

// SwitchOver makes the candidate with this ballot lead. A ballot can't move forward. So it asks those that wait ahead
// of the target to stand again behind it; when the target is next in line, it asks the leader to resign; and it waits
// until the target has acknowledged. In between no other candidate leads: meanwhile a ballot of its own, behind the
// target's, tells a target that prefers others (see leadership.CandidateOptions) not to give way.
//
// A candidate that waits and does not give way, since it is of a version that does so only when it is first, or hangs,
// is waited for no longer than a TTL: if it gives way when it is first, the target leads after it.
//
// It does nothing if the ballot does not stand (ErrNotStanding), if one ahead of it takes no requests (ErrForeign), or
// if the election is held (ErrHeld), also if the ballot is that of the hold. It does not touch the leader if the target
// has gone meanwhile (ErrTargetGone). If ctx ends once the leader was asked, it returns ErrNotDone with its cause, and
// the switch-over goes on by itself, but for a target that gives way. Two operators at once each ask all ahead of their
// targets: the target that is further back in the queue leads in the end.
func SwitchOver(ctx context.Context, st store.Store, election string, to uint64) (o Outcome, err error) {
	defer o.begin(election)()
	if o.Before, err = Read(ctx, st, election); err != nil {
		return o, err
	}
	o.After = o.Before
	at := o.Before.find(to)
	if at < 0 || insists(o.Before.Ballots[at]) {
		return o, fmt.Errorf("%w: %d in election %q", ErrNotStanding, to, election)
	}
	if target := o.Before.Ballots[at]; isHold(target) {
		return o, heldBy(election, target)
	}
	ahead := o.Before.Ballots[:at]
	if err := giveWay(election, ahead); err != nil {
		return o, err
	}
	if at > 0 {
		end, err := insist(ctx, st, election, to)
		if err != nil {
			return o, err
		}
		defer func() {
			end()
			o.After.Ballots = slices.DeleteFunc(slices.Clone(o.After.Ballots), insists)
		}()
	}
	if at > 1 {
		if o.Behind, err = stepBehind(ctx, st, election, ahead[1:]); err != nil {
			return o, err
		}
		if o.After, err = nextInLine(ctx, st, election, to); err != nil {
			return o, err
		}
	}
	if at > 0 {
		leader := o.After.Ballots[0].Token
		if leader != to { // the leader might have gone meanwhile
			if err := st.RequestResignation(ctx, election, leader); err != nil {
				return o, err
			}
		}
	}
	return o, o.await(ctx, st, election, func(q Queue) (bool, error) {
		if q.find(to) < 0 {
			return false, fmt.Errorf("%w: %d has gone in election %q after the leader was asked to resign", ErrNotDone, to, election)
		}
		return q.Ballots[0].Token == to, nil
	})
}

// insist casts the ballot that tells the target not to give way to others, and returns the function that gives it back. It
// goes before that if it is first in line, since the target has gone, or if another operator wants to have it away.
func insist(ctx context.Context, st store.Store, election string, to uint64) (end func(), err error) {
	ballot, err := st.Cast(ctx, election, directive.Lead(to))
	if err != nil {
		return nil, err
	}
	waiting, stop := context.WithCancel(ctx)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_ = ballot.Wait(waiting)
		_ = ballot.Withdraw(ctx) // once ctx has ended, the store goes on by itself
	}()
	return func() { stop(); <-gone }, nil
}

// insists reports whether a ballot is an operator's that tells a target not to give way: it never leads.
func insists(b store.Standing) bool {
	_, ok := directive.Leads(b.Value)
	return ok
}

// giveWay returns an error if one of the ballots is not going to give way, or must not.
func giveWay(election string, ahead []store.Standing) error {
	for _, b := range ahead {
		if isHold(b) {
			return heldBy(election, b)
		}
		if b.Foreign {
			return fmt.Errorf("%w: %d in election %q", ErrForeign, b.Token, election)
		}
	}
	return nil
}

func isHold(b store.Standing) bool {
	_, held := Held(b.Value)
	return held
}

func heldBy(election string, b store.Standing) error {
	reason, _ := Held(b.Value)
	return fmt.Errorf("%w: election %q, by the ballot %d: %s", ErrHeld, election, b.Token, reason)
}

// stepBehind asks the owners of ballots that wait to stand again at the back, and returns those that were asked.
func stepBehind(ctx context.Context, st store.Store, election string, ballots []store.Standing) (asked []store.Standing, err error) {
	for _, b := range slices.Backward(ballots) { // if one leads meanwhile and gives way, those behind it have done so already
		if err := st.RequestResignation(ctx, election, b.Token); err != nil {
			return asked, err
		}
		asked = append(asked, b)
	}
	return asked, nil
}

// nextInLine waits until only the leader is ahead of the target, for a TTL at most.
func nextInLine(ctx context.Context, st store.Store, election string, to uint64) (Queue, error) {
	patience := time.Now().Add(st.TTL())
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, st.TTL()/20) {
		q, err := Read(ctx, st, election)
		if err != nil {
			return q, err
		}
		switch at := q.find(to); {
		case at < 0:
			return q, fmt.Errorf("%w: %d in election %q", ErrTargetGone, to, election)
		case at <= 1 || time.Now().After(patience):
			return q, nil
		}
		if err := sleep(ctx, pause); err != nil {
			return q, err
		}
	}
}

// await waits until the first in line has acknowledged and is the one that should lead, or done returns an error. It
// reads the queue at each answer of Observe: no change of the leader tells that a ballot that waits has gone, but a
// healthy store confirms the leader several times in a TTL. Observe gets what the read has found: with an older state it
// would return at once. The first read is later than what the caller has asked for.
func (o *Outcome) await(ctx context.Context, st store.Store, election string, done func(Queue) (bool, error)) error {
	for {
		q, known, err := read(ctx, st, election)
		if err == nil {
			o.After = q
			led, gone := done(q)
			if gone != nil || led && q.Leads() {
				return gone
			}
			_, err = st.Observe(ctx, election, &known)
		}
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("%w: %w", ErrNotDone, context.Cause(ctx))
		case err != nil && !uncertain(err):
			return err
		case err != nil:
			_ = sleep(ctx, time.Second/10)
		}
	}
}

// uncertain reports whether a request that failed with err should be sent again.
func uncertain(err error) bool {
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome)
}

// sleep waits, or returns why ctx has ended.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// begin notes the election, and later the time that the operation has taken.
func (o *Outcome) begin(election string) (end func()) {
	began := time.Now()
	o.Election = election
	return func() { o.Took = time.Since(began) }
}
