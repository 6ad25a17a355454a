package leadership

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store"
)

// Follower learns who leads an election. It writes nothing to the store, and survives outages of the store by itself;
// Fresh and AsOf tell how old its knowledge is. It ends with Stop, and with a permanent error when the store is closed.
// A denial ends it as it ends Candidate.Run: only if the store has never worked, and denies for 40 s. It begins to
// follow at the first call of Start, FollowElection, Wait or Changes. Its methods may be called from any number of
// goroutines, and from its own callbacks and hooks: none of them waits for the function that calls it. Do not wait for
// Done in one of them: Done is closed only after they have returned.
//
// One goroutine asks the store for the next leader. All readers see the latest state; changes that come faster than
// they read are coalesced.
type Follower struct {
	store    store.Store
	election string
	opts     Options
	log      *slog.Logger
	tasks    *tasks

	life context.Context // ends with Stop, or with a permanent error
	end  context.CancelCauseFunc

	failures chan event // for the Error hook: the latest that it was not called with; nil if there is no such hook
	silence  silence

	mu      sync.Mutex
	started bool                 // guarded by mu, as are all below
	known   bool                 // the first answer has come
	leader  Leader               // what it was
	asOf    time.Time            // as of when leader is right
	changed chan struct{}        // closed and replaced with each answer
	onNew   []func(store.Leader) // callbacks
	onGone  []func()
	errors  chan error // of FollowElection; nil before
}

// NewFollower returns a follower of the election. It sends nothing. It refuses a name that stores don't take, with an
// error that matches store.ErrInvalid.
func NewFollower(st store.Store, election string, opts *Options) (*Follower, error) {
	if err := checkStore(st, election); err != nil {
		return nil, err
	}
	f := &Follower{
		store: st, election: election, opts: opts.orDefault(), tasks: newTasks(), changed: make(chan struct{}),
	}
	if f.opts.Hooks.Error != nil {
		f.failures = make(chan event, 1)
	}
	f.log = f.opts.Logger.With("election", election)
	f.life, f.end = context.WithCancelCause(context.Background())
	return f, nil
}

// Start begins to follow. It does not block; a second call does nothing.
func (f *Follower) Start() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.started || f.life.Err() != nil {
		return
	}
	f.silence.start(f)
	f.started = f.tasks.run(f.follow)
	if len(f.onNew)+len(f.onGone) > 0 {
		f.tasks.run(f.callback)
	}
	if f.opts.Hooks.LeaderChanged != nil {
		f.tasks.run(f.callLeaderChanged)
	}
	if f.failures != nil {
		f.tasks.run(f.callError)
	}
}

// follow asks for the next leader until the follower's life ends. No function of the user's runs here, since it might
// wait for an answer.
func (f *Follower) follow() {
	defer f.tasks.stop() // it has ended, by itself or by Stop
	defer f.silence.timer.Stop()
	var prev *store.Known
	b := backoff{first: errorBackoff}
	var denied denial
	for {
		known, err := f.ask(prev)
		switch {
		case f.life.Err() != nil:
			return
		case err != nil && (store.Permanent(err) || denied.final(err, f.store.Worked())):
			f.log.Error("permanent error, the follower stops", "error", err)
			f.end(err)
			return
		case err != nil:
			in := b.delay()
			f.log.Warn("attempt failed, will try again", "error", err, "retry_in", in)
			if f.failures != nil {
				drain(f.failures)
				f.failures <- event{what: attemptFailed, err: err, time: in}
			}
			f.fail(err)
			sleep(f.life, in)
			continue
		}
		b.reset()
		prev = &known
		f.publish(known)
	}
}

// firstAnswer is how long the first answer of the store may take, before the follower says why there is none.
const firstAnswer = 10 * time.Second

// ask asks for the next leader, or for a later time as of which prev is right. To the store, an outage is no error; one
// at the start is more likely to be a wrong address or setting: then the user must hear of it.
func (f *Follower) ask(prev *store.Known) (store.Known, error) {
	ctx := f.life
	if prev == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, firstAnswer, fmt.Errorf("%w: no answer for %v", store.ErrUnavailable, firstAnswer))
		defer cancel()
	}
	return f.store.Observe(ctx, f.election, prev)
}

func (f *Follower) publish(known store.Known) {
	leader := known.Leader
	f.mu.Lock()
	f.asOf = known.AsOf
	if f.known && f.leader == leader {
		f.mu.Unlock()
		return
	}
	first := !f.known
	f.known, f.leader = true, leader
	close(f.changed)
	f.changed = make(chan struct{})
	f.mu.Unlock()
	switch {
	case leader.Revision != 0:
		f.log.Info("leader changed", "leader", leader.Value, "revision", leader.Revision)
	case first:
		f.log.Info("no leader yet")
	default:
		f.log.Info("leader gone")
	}
}

func (f *Follower) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.errors != nil {
		drain(f.errors)
		f.errors <- err
	}
}

// state returns what is known, and a channel that is closed when that changes.
func (f *Follower) state() (leader Leader, known bool, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.leader, f.known, f.changed
}

// Leader returns the acknowledged leader and true, or false if there is no leader or nothing is known yet; AsOf tells
// these two apart. It does not block. Once the follower has ended, which Err tells, it goes on returning what was known
// last, and AsOf when that was right.
func (f *Follower) Leader() (Leader, bool) {
	leader, known, _ := f.state()
	return leader, known && leader.Revision != 0
}

// Err is nil while the follower goes on, and then ErrStopped or the error that ended it.
func (f *Follower) Err() error { return context.Cause(f.life) }

// Wait returns the leader as soon as there is one. It returns early when ctx ends, with its cause, and when the
// follower ends, with ErrStopped or the error that ended it.
func (f *Follower) Wait(ctx context.Context) (Leader, error) {
	for leader, err := range f.each(ctx) {
		if err != nil || leader.Revision != 0 {
			return leader, err
		}
	}
	panic("unreachable")
}

// Changes iterates over the leaders: the present state as soon as it is known, the zero Leader if there is none,
// then each state that differs from the one yielded before. It ends when ctx or the follower ends, without yielding
// anything more; Err tells why.
func (f *Follower) Changes(ctx context.Context) iter.Seq[Leader] {
	return func(yield func(Leader) bool) {
		for leader, err := range f.each(ctx) {
			if err != nil || !yield(leader) {
				return
			}
		}
	}
}

// each yields states until there is an error, which it yields last.
func (f *Follower) each(ctx context.Context) iter.Seq2[Leader, error] {
	f.Start()
	return func(yield func(Leader, error) bool) {
		var last *Leader
		for {
			leader, known, changed := f.state()
			if known && ctx.Err() == nil && f.life.Err() == nil && (last == nil || leader != *last) {
				last = &leader
				if !yield(leader, nil) {
					return
				}
			}
			select {
			case <-changed: // meanwhile too
			case <-ctx.Done():
				yield(Leader{}, context.Cause(ctx))
				return
			case <-f.life.Done():
				yield(Leader{}, context.Cause(f.life))
				return
			}
		}
	}
}

// FollowElection follows in the background, until Stop. The first channel carries the value of the leader, empty if
// there is none: the present state as soon as it is known, then each that differs from the one read last. One that was
// not read is replaced by the next, so a slow or absent reader holds nothing up. The second channel carries errors,
// the latest replacing one that was not read. Both are closed after Stop, and after a permanent error. Call it once;
// later calls return closed channels.
func (f *Follower) FollowElection() (<-chan string, <-chan error) {
	values, errs := make(chan string, 1), make(chan error, 1)
	refuse := func(err error) (<-chan string, <-chan error) {
		errs <- err
		close(values)
		close(errs)
		return values, errs
	}
	f.mu.Lock()
	if f.errors != nil {
		f.mu.Unlock()
		return refuse(errFollowed)
	}
	if !f.tasks.run(func() { f.feed(values, errs) }) { // which starts the follower
		f.mu.Unlock()
		return refuse(f.Err())
	}
	f.errors = errs
	f.mu.Unlock()
	return values, errs
}

// errFollowed refuses a second call of FollowElection.
var errFollowed = errors.New("FollowElection was called before")

// feed keeps the latest value in the channel.
func (f *Follower) feed(values chan string, errs chan error) {
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.errors = make(chan error, 1) // taken, and never read
		if err := f.Err(); !errors.Is(err, ErrStopped) {
			drain(errs)
			errs <- err
		}
		close(values)
		close(errs)
	}()
	var read, waiting *string // the value that the reader took last, and the one in the channel, which it may have taken
	for leader := range f.Changes(context.Background()) {
		select {
		case <-values: // it was not read, and is out of date
		default:
			if waiting != nil {
				read = waiting
			}
		}
		waiting = nil
		if read == nil || *read != leader.Value {
			waiting = &leader.Value
			values <- leader.Value
		}
	}
}

// Stop ends the follower for good and returns at once: it closes the channels and ends the iterators. Callbacks that
// are running go on; Done tells when they have returned. Calling Stop again, or before anything else, is allowed.
func (f *Follower) Stop() {
	f.end(ErrStopped)
	f.tasks.stop()
}

// Done returns a channel that is closed when the follower has ended, by Stop or by a permanent error, and nothing of it
// is left: no callback, hook or goroutine.
func (f *Follower) Done() <-chan struct{} { return f.tasks.done }
