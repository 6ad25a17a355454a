package leadership

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-leadership/leadership/internal/directive"
	"github.com/go-leadership/leadership/internal/fitness"
	"github.com/go-leadership/leadership/internal/teller"
	"github.com/go-leadership/leadership/store"
)

// Campaign stands for election and returns the term once the candidate leads. The caller acknowledges it, watches its
// context, and calls Term.Withdraw when the work has stopped. ctx has no effect on the term.
//
// Campaign withdraws its ballot and returns an error when ctx ends (its cause), after Stop, when the ballot is lost, after an
// error that the store does not retry, such as a denial, and with ErrNoLease, ErrTokenRegressed, ErrRequested, ErrUnfit or
// ErrGaveWay.
func (c *Candidate) Campaign(ctx context.Context) (*Term, error) {
	d, err := c.enter(ctx, false)
	if err != nil {
		return nil, err
	}
	t, err := c.campaign(d)
	if err != nil {
		c.failed(err)
		d.leave()
	}
	return t, err
}

// Run stands for election and calls lead each time the candidate wins, with a context that ends when the term does. When lead
// returns, Run withdraws the ballot and stands again, at the back of the queue. If lead ignores its context, all candidates
// behind this one wait.
//
// lead calls Term.Acknowledge when it has taken over; [Lead] does so at once. The term ends with ErrResigned if lead returns
// nil, and with ErrFailed if it returns an error, panics or calls runtime.Goexit. A panic goes on in the caller of Run.
//
// Run returns nil after Stop, the cause of ctx when ctx ends, and a permanent error of the store: ErrClosed, store.ErrInvalid
// if the service refuses a setting, or store.ErrDenied if the store has never worked and is denied everything for 40 s. It
// tries again after any other error, including lead's, and reports it to the log and to Events.
//
// Between terms Run backs off, doubling up to 5 s: from 100 ms after an error, from 1 ms otherwise. A turn of more than 5 s,
// from the cast to the end of the term, and one that an operator has ended, reset the back-off.
func (c *Candidate) Run(ctx context.Context, lead func(ctx context.Context, term *Term) error) error {
	if lead == nil {
		panic("leadership: Run has no function to call; leadership.Lead acknowledges and waits")
	}
	d, err := c.enter(ctx, true)
	if err != nil {
		return err
	}
	defer d.leave()
	return c.run(d, lead)
}

// Lead is a function for Run that acknowledges at once and returns when the term ends, for programs that ask IsLeader.
func Lead(ctx context.Context, term *Term) error {
	if err := term.Acknowledge(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// drive is one use of a candidate: a call of Run, or a call of Campaign with the term that it returned.
type drive struct {
	c       *Candidate
	ctx     context.Context // that of the call: ends with it, and with Stop
	cancel  context.CancelCauseFunc
	serves  bool // Run: it withdraws the ballots of its terms by itself
	checks  *fitness.Checks
	uncheck func(wait bool) // ends them
}

// enter begins a drive, unless there is one or Stop was called.
func (c *Candidate) enter(ctx context.Context, serves bool) (*drive, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil, ErrStopped
	}
	if c.current != nil {
		return nil, fmt.Errorf("%w: %q", ErrRunning, c.election)
	}
	d := &drive{c: c, serves: serves}
	d.ctx, d.cancel = context.WithCancelCause(ctx)
	c.tasks.begin() // not refused, as Stop was not called
	d.checks, d.uncheck = c.startChecks()
	c.current = d
	return d, nil
}

// leave ends a drive, unless it is over already. For Run, it waits for the checks, and a little until all has been told,
// since the program might end with Run. For Campaign, Done waits for these.
func (d *drive) leave() {
	d.cancel(nil)
	d.uncheck(d.serves)
	if !d.c.idle(d) {
		return
	}
	if d.serves {
		teller.Wait(d.c.queue)
	}
	d.c.tasks.end()
}

// idle makes the candidate idle after a drive, and reports whether it was not.
func (c *Candidate) idle(d *drive) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != d {
		return false
	}
	c.current = nil
	c.becomes(Idle, nil)
	return true
}

// run is Run after enter.
func (c *Candidate) run(d *drive, lead func(context.Context, *Term) error) error {
	ctx := d.ctx
	var pause backoff
	var denied denial
	for {
		began := time.Now()
		t, err := c.campaign(d)
		requested := errors.Is(err, ErrRequested)
		switch {
		case err == nil:
			err = c.serve(t, lead)
			requested = errors.Is(context.Cause(t.ctx), ErrRequested)
		case ctx.Err() != nil: // the error is the consequence
		case requested, errors.Is(err, ErrUnfit), errors.Is(err, ErrGaveWay), errors.Is(err, ErrLost) && !errors.Is(err, store.ErrDenied):
			err = nil // a ballot that ended before it led is no failure
		case denied.permanent(err, c.store):
			c.log(slog.LevelError, "permanent error, the candidate stops", "error", err)
			c.failed(err)
			return err
		}
		if requested || time.Since(began) > longestBackoff { // requests are no churn
			pause.reset()
		}
		switch {
		case ctx.Err() != nil:
			if c.isStopped() {
				return nil
			}
			return context.Cause(ctx)
		case err != nil:
			c.failed(err)
			c.retry(ctx, err, pause.next(shortestAfterError))
		default:
			sleep(ctx, pause.next(shortestAfterTerm))
		}
	}
}

func (c *Candidate) isStopped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stopped
}

// campaign casts a ballot while the candidate is fit, waits until it is first, and begins a term.
func (c *Candidate) campaign(d *drive) (*Term, error) {
	fit, err := d.checks.Fit(d.ctx, func() { c.enters(Unfit, nil) })
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(d.ctx)
	defer cancel(nil)
	defer context.AfterFunc(fit, func() { cancel(unfit(context.Cause(fit))) })()
	c.enters(Casting, nil)
	ballot, err := c.cast(ctx, d.serves)
	if err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	c.enters(Waiting, ballot)
	c.notify(Event{Kind: BallotCast, Token: ballot.Token()})
	span, err := c.await(ctx, ballot)
	if err == nil {
		if why := d.checks.Fresh(); why != nil {
			err = unfit(why)
		}
	}
	if err == nil {
		t := newTerm(c, d, fit, ballot, span)
		if err = c.begin(t); err == nil {
			return t, nil
		}
	}
	_ = c.withdraw(ballot)
	c.enters(Casting, nil)
	return nil, cmp.Or(context.Cause(ctx), err)
}

// await waits until the ballot is first and its lease holds, and returns the lease's span.
func (c *Candidate) await(ctx context.Context, ballot store.Ballot) (store.Span, error) {
	if err := ballot.Wait(ctx); errors.Is(err, store.ErrRequested) {
		return 0, ErrRequested
	} else if err != nil {
		return 0, err
	}
	if c.givesWay(ctx, ballot) {
		return 0, ErrGaveWay
	}
	patience := time.NewTimer(c.store.TTL())
	defer patience.Stop()
	for {
		renewal := ballot.Lease().Last()
		span, ok := ballot.Lease().Span() // the term lasts as long as this unbroken run of renewals
		if err := stillStands(ctx, ballot); err != nil || ok {
			return span, err
		}
		// The session is not confirmed: an outage, or a link so slow that every answer comes too late. Only a renewal can
		// show that the session stands. Without one, the ballot must not keep the others waiting.
		select {
		case <-renewal.Changed:
		case <-ballot.Lost():
		case <-ballot.ResignationRequested():
		case <-ctx.Done():
		case <-patience.C:
			return 0, fmt.Errorf("%w: gave way after %v to the next in line", ErrNoLease, c.store.TTL())
		}
	}
}

// stillStands returns why the ballot that was first must not lead any more: some time has passed since it was.
func stillStands(ctx context.Context, ballot store.Ballot) error {
	switch {
	case isClosed(ballot.Lost()):
		return ballot.Err()
	case isClosed(ballot.ResignationRequested()):
		return ErrRequested
	}
	return context.Cause(ctx)
}

// givesWay reports whether a candidate waits that this one prefers, and no operator wants this one to lead. All others wait
// meanwhile, so it does not wait long for the store.
func (c *Candidate) givesWay(ctx context.Context, ballot store.Ballot) bool {
	if len(c.giveWayTo) == 0 || c.gaveWay {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, c.store.TTL()/4)
	defer cancel()
	ballots, err := c.store.Ballots(ctx, c.election)
	if err != nil || len(ballots) == 0 || ballots[0].Token != ballot.Token() { // whether one waits can't be known now
		return false
	}
	lead := directive.Lead(ballot.Token())
	if slices.ContainsFunc(ballots, func(b store.Standing) bool { return b.Value == lead }) {
		return false
	}
	c.gaveWay = slices.ContainsFunc(ballots[1:], func(b store.Standing) bool {
		return !b.Asked && slices.Contains(c.giveWayTo, b.Value) // one that was asked to resign is about to go
	})
	return c.gaveWay
}

// begin makes a term the candidate's, unless Stop was called. IsLeader is true from then on.
func (c *Candidate) begin(t *Term) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return ErrStopped
	}
	c.gaveWay = false
	c.term.Store(t)
	c.notify(Event{Kind: TermBegan, Token: t.Token()})
	c.tasks.run(t.watch)
	return nil
}

// serve calls lead, and withdraws the ballot when lead has returned or panicked. It returns the error to report, which matches
// ErrFailed.
func (c *Candidate) serve(t *Term, lead func(context.Context, *Term) error) (err error) {
	defer func() { t.withdrawn(c.withdraw(t.ballot)); <-t.watched }()
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
		c.log(slog.LevelWarn, "the leader's function failed after its term had ended", "token", t.Token(), "error", err)
	}
	return nil
}

// withdraw removes a ballot. It waits for the store no longer than one TTL: a session is gone by then if the service does not
// hear from it. The store goes on by itself after that.
func (c *Candidate) withdraw(ballot store.Ballot) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.store.TTL())
	defer cancel()
	err := ballot.Withdraw(ctx)
	if err != nil && !errors.Is(err, ErrClosed) { // Close ends the session, as far as it can reach the service
		c.log(slog.LevelWarn, "could not confirm that the ballot was removed", "token", ballot.Token(), "error", err)
	}
	return err
}

// forget drops a term whose ballot has been withdrawn, and the values of its caller's context.
func (c *Candidate) forget(t *Term) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.term.CompareAndSwap(t, nil) {
		return
	}
	c.status.Led, c.status.Revision = time.Now(), t.revision()
	if c.current != nil { // not a later one
		c.becomes(Casting, nil)
	}
}

// The first pauses after an error, and after a ballot or a term that ended otherwise, and the longest after either. Terms
// that end again and again at once must not keep the store busy.
const (
	shortestAfterError = 100 * time.Millisecond
	shortestAfterTerm  = time.Millisecond
	longestBackoff     = 5 * time.Second
)

// backoff is a pause that doubles with each try, up to longestBackoff. The zero value is ready to use.
type backoff struct{ last time.Duration }

// next returns the next pause, at random between half and all of at least shortest.
func (b *backoff) next(shortest time.Duration) time.Duration {
	b.last = min(max(2*b.last, shortest), longestBackoff)
	return b.last/2 + rand.N(b.last/2)
}

func (b *backoff) reset() { b.last = 0 }

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// deniedFor is how long a service has to deny everything before a candidate or follower believes that it always will.
// A service denies also while it can't reach what knows the permissions, and for some time after that, since it caches
// what it found: a Consul agent for 30 s (acl_token_ttl). The rest is for the requests and the back-off between them.
const deniedFor = 40 * time.Second

// denial tells a denial that lasts from one that passes.
type denial struct {
	since time.Time // of the first in an unbroken row; zero if the last attempt was not denied
}

// permanent reports whether an attempt that ended with err shows that no other will succeed. A denial shows that only if
// the store never worked, and each answer for deniedFor was a denial. A store that has worked once had permission, and
// might get it back. An error that matches ErrUnavailable too is a denial by a part of the service that might not know.
func (d *denial) permanent(err error, st store.Store) bool {
	switch {
	case st.Worked() || !errors.Is(err, store.ErrDenied) || errors.Is(err, store.ErrUnavailable):
		d.since = time.Time{}
	case d.since.IsZero():
		d.since = time.Now()
	case time.Since(d.since) >= deniedFor:
		return true
	}
	return store.Permanent(err)
}
