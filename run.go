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

// Campaign stands for election and returns once the candidate leads. The caller acknowledges, watches Term.Context, and
// must call Term.Withdraw when its work has stopped: until then the ballot stands, and the candidate can't campaign
// again. Of the callbacks, Campaign calls only the new-leader callbacks.
//
// It returns early with an error when ctx ends, with its cause; when Stop is called; when the store returns an error that
// it does not retry by itself, such as a denial; when the ballot is lost; and with ErrNoLease, ErrTokenRegressed,
// ErrRequested, ErrUnfit or ErrGaveWay. It gives the ballot back first, which takes no longer than one TTL. Once Campaign
// has returned, ctx has no effect on the term. It returns ErrRunning at once if the candidate is being driven already, and
// ErrStopped after Stop.
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

// Run stands for election and calls lead each time the candidate wins, with a context that ends when the term does. When
// lead returns the candidate steps down and stands again, at the back of the queue. Run waits for lead to return before it
// gives the ballot back, so two calls never overlap; a lead that ignores its context keeps all candidates behind it
// waiting.
//
// Won callbacks run before lead. lead calls Term.Acknowledge when it has taken over: Run does not do it, and followers
// know of no leader before. The function Lead of this package acknowledges and waits, for programs whose work is in
// callbacks, or that ask IsLeader. Run panics if lead is nil.
//
// If lead returns nil and has not acknowledged, the candidate has resigned: followers never hear of the term, the
// takeover-failed callbacks are called with ErrResigned, and no error is reported. If lead goes on for a TTL without an
// acknowledgement, the log says so, once per candidate.
//
// Between terms, Run backs off, doubling up to 5 s: from 100 ms after an error, from 1 ms otherwise. An acknowledgement
// resets the back-off after errors. The other back-off is reset by a turn, from casting a ballot to the return of lead,
// that takes longer than 5 s or that an operator ends.
//
// Run returns nil after Stop, the cause of ctx when ctx ends, and a permanent error as soon as the store returns one: it
// matches ErrClosed if the store is closed, and store.ErrInvalid if the service refuses a setting. Run returns ErrRunning
// at once if the candidate is being driven already, and ErrStopped if Stop was called before. After every other error of
// the store it tries again, and reports the error at once to Options.Logger, if set, and to the Error hook. A denial ends
// Run only if the store has never worked and goes on denying for 40 s: services that could not read their permissions
// cache their denials for less. If lead panics or calls runtime.Goexit, Run gives the ballot back first.
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

// RunForElection stands for election in the background, until Stop. The first channel carries false at once, then true
// each time a term of the candidate's begins and false each time one ends; it then stands again by itself. The second
// carries errors, the latest replacing one that was not read. Nothing waits for slow or absent readers; a true that was
// not read before the term ended is taken back. IsLeader is always right; a value read from the channel was right when
// it was sent.
//
// It acknowledges when the won callbacks have returned: what has to be done before, they do. After Stop, or a permanent
// error (the last on the second channel), both channels are closed; a candidate that led has been sent a final false. If
// the candidate is running or stopped already, the channels that it returns carry that error and are closed.
func (c *Candidate) RunForElection() (<-chan bool, <-chan error) {
	d, err := c.enter(context.Background(), true)
	if err != nil {
		return refused[bool](err)
	}
	elected, errs := c.channels.open(2)
	elected <- false
	go func() { // Done waits for d.wait
		defer d.wait()
		c.channels.close(c.run(d, func(ctx context.Context, t *Term) error {
			c.channels.termBegan(t.current)
			return Lead(ctx, t)
		}))
	}()
	return elected, errs
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
	c.tell(event{what: ballotCast, token: ballot.Token()})
	stopTelling := c.tellOfNewLeaders(d)
	err := ballot.Wait(ctx)
	stopTelling()
	switch {
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
// and no operator wants this one to lead.
// The others wait meanwhile, so a store that does not answer soon is not waited for.
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
	if err := c.takeOver(t); err != nil {
		return err
	}
	err = errExited // unless lead returns
	return lead(t.ctx, t)
}

// errExited stands for the result of a leader's function that has not returned.
var errExited = errors.New("it has panicked or ended its goroutine")

// takeOver calls the won callbacks, in order, for as long as the term goes on. It returns the error of one that failed, or
// why the term has ended.
func (c *Candidate) takeOver(t *Term) error {
	for _, won := range c.onWon.all() {
		if t.ctx.Err() != nil {
			break
		}
		if err := teller.Call(func() error { return won(t.ctx, t) }); err != nil {
			return fmt.Errorf("takeover failed: %w", err)
		}
	}
	return context.Cause(t.ctx)
}

// conclude ends a term whose leader has returned err, and calls the callbacks that undo its work while the ballot still
// stands. It returns the error to report: nil if err is nil, or the term had ended before.
func (c *Candidate) conclude(t *Term, err error) error {
	why, reported := ErrResigned, error(nil)
	if err != nil {
		why = fmt.Errorf("%w: %w", ErrFailed, err)
	}
	t.end(why)
	switch ended := context.Cause(t.ctx); {
	case ended == why: // it went on until here
		if err != nil {
			reported = why
		}
	case err == nil || errors.Is(err, context.Canceled) || errors.Is(err, ended): // the consequence
		why = ended
	default:
		c.say(slog.LevelWarn, "the leader's function failed after its term had ended", "token", t.Token(), "error", err)
		why = fmt.Errorf("%w; the term had ended: %w", why, ended)
	}
	if !t.mightBeKnown() {
		for _, failed := range c.onTakeoverFailed.all() {
			c.call(func() { failed(why) })
		}
	}
	for _, ended := range c.onTermEnded.all() {
		c.call(func() { ended(t, context.Cause(t.ctx)) })
	}
	return reported
}

// causeOr returns the cause of ctx if that has ended, and err otherwise.
func causeOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
