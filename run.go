package leadership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/go-leadership/leadership/internal/directive"
	"github.com/go-leadership/leadership/internal/teller"
	"github.com/go-leadership/leadership/store"
)

// Campaign stands for election and returns the term once the candidate leads. The caller acknowledges it, watches its
// context, and calls Term.Withdraw when the work has stopped. Until then the ballot stands, and the candidate can't campaign
// again. ctx has no effect on the term.
//
// Campaign returns an error, having given the ballot back, when ctx ends (its cause); after Stop; when the store returns an
// error that it does not retry by itself, such as a denial; when the ballot is lost; and with ErrNoLease, ErrTokenRegressed,
// ErrRequested, ErrUnfit or ErrGaveWay. Giving the ballot back takes no longer than one TTL.
func (c *Candidate) Campaign(ctx context.Context) (*Term, error) {
	d, err := c.enter(ctx, false)
	if err != nil {
		return nil, err
	}
	t, err := c.campaign(d)
	d.cancel(nil)
	if err != nil {
		c.failed(err)
		d.leave()
	}
	return t, err
}

// Run stands for election and calls lead each time the candidate wins, with a context that ends when the term does. When lead
// returns, Run gives the ballot back and stands again, at the back of the queue. Two calls of lead never overlap; one that
// ignores its context keeps all candidates behind it waiting.
//
// lead calls Term.Acknowledge when it has taken over: no follower knows of the leader before. The function [Lead] does that
// and waits, for programs that ask IsLeader. If lead returns nil, the term ends with ErrResigned; if it returns an error, with
// ErrFailed, and Run reports the error. If lead panics or calls runtime.Goexit, Run gives the ballot back first.
//
// Run returns nil after Stop, the cause of ctx when ctx ends, and a permanent error of the store: ErrClosed, or
// store.ErrInvalid if the service refuses a setting. After any other error it tries again, and reports the error at once to
// the log and to CandidateOptions.Events. A denial ends Run only if the store has never worked and is denied everything for
// 40 s: services that could not read their permissions cache their denials for less. Run returns ErrRunning if the candidate
// is being driven already, and ErrStopped if Stop was called before.
//
// Between terms Run backs off, doubling up to 5 s: from 100 ms after an error, until a term has been acknowledged; from 1 ms
// after other terms and ballots, until one has lasted 5 s or an operator has ended one.
func (c *Candidate) Run(ctx context.Context, lead func(ctx context.Context, term *Term) error) error {
	if lead == nil {
		panic("leadership: Run has no function to call; leadership.Lead acknowledges and waits")
	}
	d, err := c.enter(ctx, true)
	if err != nil {
		return err
	}
	defer d.wait()
	return c.run(d, lead)
}

// Lead is a function for Run that acknowledges at once and leads for as long as it can.
func Lead(ctx context.Context, term *Term) error {
	if err := term.Acknowledge(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// run is Run after enter.
func (c *Candidate) run(d *drive, lead func(context.Context, *Term) error) error {
	ctx := d.ctx
	defer d.cancel(nil)
	failures, turns := backoff{first: errorBackoff}, backoff{first: turnBackoff}
	var denied denial
	for {
		began := time.Now()
		t, err := c.campaign(d)
		requested := errors.Is(err, ErrRequested)
		switch {
		case err == nil:
			err = c.serve(t, lead)
			requested = errors.Is(context.Cause(t.ctx), ErrRequested)
			if t.Acknowledged() {
				failures.reset()
			}
		case requested, errors.Is(err, ErrUnfit), errors.Is(err, ErrGaveWay), errors.Is(err, ErrLost) && !errors.Is(err, store.ErrDenied):
			err = nil // a ballot that ended before it led is no failure
		case ctx.Err() != nil || c.isStopped(): // the error is the consequence
		case denied.permanent(err, c.store):
			c.say(slog.LevelError, "permanent error, the candidate stops", "error", err)
			c.failed(err)
			return err
		}
		if requested || time.Since(began) > lastBackoff { // requests are no churn
			turns.reset()
		}
		ended := ctx.Err() != nil // asked first: Stop ends ctx after it has set stopped
		switch {
		case c.isStopped():
			return nil
		case ended:
			return context.Cause(ctx)
		case err != nil:
			c.failed(err)
			c.retry(ctx, err, failures.delay())
		default:
			sleep(ctx, turns.delay())
		}
	}
}

// campaign casts a ballot, waits until it is first, and begins a term.
func (c *Candidate) campaign(d *drive) (*Term, error) {
	ctx := d.ctx
	fit := context.Background()
	if d.fit != nil {
		var err error
		if fit, err = d.fit.await(ctx); err != nil {
			return nil, err
		}
		c.standsNoMore()
	}
	ballot, err := c.cast(d, fit)
	if err != nil {
		return nil, causeOr(ctx, err)
	}
	t, err := c.await(d, fit, ballot)
	if err != nil {
		c.withdraw(ballot)
		c.standsNoMore()
		return nil, causeOr(ctx, err)
	}
	return t, nil
}

// await waits until the ballot is first and its lease holds, and begins its term.
func (c *Candidate) await(d *drive, fit context.Context, ballot store.Ballot) (*Term, error) {
	ctx := d.ctx
	if d.fit != nil {
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(fit, func() { cancel(context.Cause(fit)) })()
	}
	c.stands(ballot)
	c.tell(Event{Kind: BallotCast, Token: ballot.Token()})
	switch err := ballot.Wait(ctx); {
	case errors.Is(err, store.ErrRequested):
		return nil, ErrRequested
	case err != nil:
		return nil, err
	}
	if c.givesWay(ctx, ballot) {
		return nil, ErrGaveWay
	}
	patience := time.NewTimer(c.store.TTL())
	defer patience.Stop()
	for {
		renewal := ballot.Lease().Last()
		span, ok := ballot.Lease().Span() // the term lasts as long as this unbroken run of renewals
		if err := stillStands(ctx, ballot); err != nil {
			return nil, err
		}
		if ok {
			if d.fit != nil {
				if err := d.fit.fresh(); err != nil {
					return nil, err
				}
			}
			return c.begin(d, fit, ballot, span)
		}
		// First in line, and the session is not confirmed: an outage, or a link so slow that every answer comes too
		// late. Only a renewal can show that the session stands. Without one, the ballot must not keep the others
		// waiting.
		select {
		case <-renewal.Changed:
		case <-ballot.Lost():
		case <-ballot.ResignationRequested():
		case <-ctx.Done():
		case <-patience.C:
			return nil, fmt.Errorf("%w: gave way after %v to the next in line", ErrNoLease, c.store.TTL())
		}
	}
}

// stillStands returns why the ballot that was first must not lead any more: some time has passed since it was.
func stillStands(ctx context.Context, ballot store.Ballot) error {
	select {
	case <-ballot.Lost():
		return ballot.Err()
	default:
	}
	select {
	case <-ballot.ResignationRequested():
		return ErrRequested
	default:
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// givesWay reports whether the candidate gives its ballot back instead of leading with it, since one that it prefers waits,
// and no operator wants this one to lead. The others wait meanwhile, so it does not wait for a store that does not answer
// soon.
func (c *Candidate) givesWay(ctx context.Context, ballot store.Ballot) bool {
	if len(c.giveWayTo) == 0 || c.gaveWay {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, c.store.TTL()/4)
	defer cancel()
	queue, err := c.store.Ballots(ctx, c.election)
	if err != nil || len(queue) == 0 || queue[0].Token != ballot.Token() { // whether one waits can't be known now
		return false
	}
	lead := directive.Lead(ballot.Token())
	if slices.ContainsFunc(queue, func(b store.Standing) bool { return b.Value == lead }) {
		return false
	}
	c.gaveWay = slices.ContainsFunc(queue[1:], func(b store.Standing) bool {
		return !b.Asked && slices.Contains(c.giveWayTo, b.Value) // one that was asked to resign is about to go
	})
	return c.gaveWay
}

// begin begins a term: from here on IsLeader is true.
func (c *Candidate) begin(d *drive, fit context.Context, ballot store.Ballot, span store.Span) (*Term, error) {
	t := newTerm(c, d, fit, ballot, span)
	c.gaveWay = false
	d.tasks.Add(1) // another goroutine could give the term back meanwhile
	defer d.tasks.Done()
	if err := t.begin(); err != nil {
		return nil, err
	}
	d.tasks.Go(t.watch)
	return t, nil
}

// serve calls lead, and gives the ballot back when lead has returned or panicked. It returns the error to report, which
// matches ErrFailed.
func (c *Candidate) serve(t *Term, lead func(context.Context, *Term) error) (err error) {
	defer t.giveBack()
	defer func() { err = c.conclude(t, err) }()
	err = errExited // unless lead returns
	return lead(t.ctx, t)
}

// errExited stands for the result of a leader's function that has not returned.
var errExited = errors.New("it has panicked or ended its goroutine")

// conclude ends a term whose leader has returned err. It returns the error to report: nil if err is nil, or if the term had
// ended before.
func (c *Candidate) conclude(t *Term, err error) error {
	t.End(err)
	ended := context.Cause(t.ctx)
	if errors.Is(ended, ErrFailed) {
		return ended
	}
	if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, ended) { // it is no consequence
		c.say(slog.LevelWarn, "the leader's function failed after its term had ended", "token", t.Token(), "error", err)
	}
	return nil
}

// causeOr returns the cause of ctx if that has ended, and err otherwise.
func causeOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// A service that is restored from an older copy gives out tokens that are lower than earlier ones. A resource that has
// seen a higher token refuses a leader with such a token, so a candidate that knows a higher one does not lead. Each
// ballot and its removal raise the service's index. If the gap is small, the candidate raises it until the tokens are
// higher than before; then a candidate that starts anew leads with such a token, too. If the gap is larger, an operator
// decides, and the candidate waits. It always has one ballot in the queue, so that an operator finds it there.

// mostRaised is the largest gap that a candidate closes: some minutes, and some ten megabytes in etcd's history.
const mostRaised = 100_000

// seen is the highest token that a candidate has seen.
type seen struct {
	token uint64
	at    time.Time
	gap   *gap // nil while tokens grow
}

// gap is what a candidate knows of tokens that are lower than before.
type gap struct {
	began time.Time
	told  teller.Reminder
}

// cast casts a ballot whose token is higher than all that this candidate has seen. Under Run it waits until the service
// gives one.
func (c *Candidate) cast(d *drive, fit context.Context) (store.Ballot, error) {
	var low store.Ballot // the last one, whose token is too low
	giveBack := func() {
		if low != nil {
			c.withdraw(low)
		}
	}
	defer func() { giveBack() }()
	for {
		ballot, err := c.castBallot(d.ctx)
		if err != nil {
			return nil, err
		}
		token := ballot.Token()
		if token > c.seen.token {
			c.tokensGrow(token)
			return ballot, nil
		}
		raises := c.seen.token-token <= mostRaised && (low == nil || token > low.Token())
		giveBack()
		low = ballot
		if err := c.tokensRegressed(d, ballot, raises); err != nil {
			return nil, err
		}
		if !raises {
			c.standLow(d.ctx, fit, ballot)
		}
		for _, ctx := range []context.Context{d.ctx, fit} {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
		}
	}
}

// tokensGrow notes a token that is higher than before.
func (c *Candidate) tokensGrow(token uint64) {
	if g := c.seen.gap; g != nil {
		c.say(slog.LevelInfo, "tokens are higher than before again", "token", token, "before", c.seen.token,
			"after", time.Since(g.began).Round(time.Millisecond))
	}
	c.seen = seen{token: token, at: time.Now()}
}

// tokensRegressed reports a token that is not higher than before, when it is time to. It returns the error of Campaign if
// the candidate can't close the gap.
func (c *Candidate) tokensRegressed(d *drive, ballot store.Ballot, raises bool) error {
	if c.seen.gap == nil {
		c.seen.gap = &gap{began: time.Now()}
	}
	due := c.seen.gap.told.Due()
	if !due && (raises || d.serves) {
		return nil
	}
	what := "it casts ballots until its tokens are higher"
	if !raises {
		what = fmt.Sprintf("raise the service's index by more than %d", c.seen.token-ballot.Token())
		if b, ok := ballot.(interface{ RaiseTokens() string }); ok && b.RaiseTokens() != "" {
			what += ": " + b.RaiseTokens()
		}
		what += ". Or reset what remembers tokens, and then restart this process"
	}
	err := fmt.Errorf("%w: election %q gave token %d, and %d at %s: the store was set back, such as by a restore from an "+
		"older copy, and this candidate does not lead with a token that fenced resources refuse; %s",
		ErrTokenRegressed, c.election, ballot.Token(), c.seen.token, c.seen.at.Format(time.RFC3339), what)
	if !d.serves && !raises {
		return err
	}
	in := time.Duration(0)
	if !raises {
		in = lastBackoff
	}
	c.failed(err)
	c.tell(Event{Kind: AttemptFailed, Err: err, RetryIn: in})
	return nil
}

// standLow lets a ballot with a low token stand until it is time to look again.
func (c *Candidate) standLow(ctx, fit context.Context, ballot store.Ballot) {
	again := time.NewTimer(lastBackoff)
	defer again.Stop()
	select {
	case <-again.C:
	case <-ctx.Done():
	case <-fit.Done():
	case <-ballot.ResignationRequested():
	case <-ballot.Lost():
		sleep(ctx, errorBackoff)
	}
}
