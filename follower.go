package leadership

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/redact"
	"github.com/go-leadership/leadership/internal/suspension"
	"github.com/go-leadership/leadership/store"
)

// Follower learns who leads an election. It writes nothing, and survives outages; Fresh and AsOf tell how old its knowledge
// is. It begins with the first call of Start, Leader, Wait or Changes, and ends with Stop, or with a permanent error, as
// Candidate.Run does. Readers see the latest state: changes that come faster are coalesced. Packages channels and callbacks
// offer Changes in other styles.
type Follower struct {
	notifier
	store store.Store
	tasks *tasks

	ctx context.Context // ends with Stop, or with a permanent error
	end context.CancelCauseFunc

	mu      sync.Mutex
	started bool          // guarded by mu, as are all below
	known   bool          // the first answer has come
	leader  Leader        // what the last answer was
	asOf    time.Time     // as of when leader is right
	changed chan struct{} // closed and replaced with each answer
}

// NewFollower is like NewCandidate.
func NewFollower(st store.Store, election string, opts *FollowerOptions) (*Follower, error) {
	if err := checkStore(st, election); err != nil {
		return nil, err
	}
	opts = cmp.Or(opts, &FollowerOptions{})
	f := &Follower{store: st, tasks: newTasks(), changed: make(chan struct{})}
	f.notifier = newNotifier(election, opts.Logger, opts.Events, f.tasks)
	f.ctx, f.end = context.WithCancelCause(context.Background())
	return f, nil
}

// Start begins to follow. It may be called again, and after Stop.
func (f *Follower) Start() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.started && f.ctx.Err() == nil {
		f.started = f.tasks.run(f.follow)
	}
}

// follow asks for the next leader until the follower ends. No function of the user's runs here, since it might
// wait for an answer.
func (f *Follower) follow() {
	defer f.tasks.stop() // it has ended, by itself or by Stop
	var prev *store.Known
	var pause backoff
	var denied denial
	for {
		known, err := f.ask(prev)
		switch {
		case f.ctx.Err() != nil:
			return
		case denied.permanent(err, f.store):
			f.log(slog.LevelError, "permanent error, the follower stops", "error", err)
			f.end(err)
			return
		case err != nil:
			f.retry(f.ctx, err, pause.next(shortestAfterError))
		default:
			pause.reset()
			prev = &known
			f.publish(known)
		}
	}
}

// firstAnswer is how long the first answer of the store may take, before the follower says why there is none.
const firstAnswer = 10 * time.Second

// ask asks for the next leader, or for a later time as of which prev is right. To the store, an outage is no error; one
// at the start is more likely to be a wrong address or setting: then the user must hear of it.
func (f *Follower) ask(prev *store.Known) (store.Known, error) {
	ctx := f.ctx
	if prev == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, firstAnswer, fmt.Errorf("%w: no answer for %v", store.ErrUnavailable, firstAnswer))
		defer cancel()
	}
	return f.store.Observe(ctx, f.election, prev)
}

// publish tells of an answer, which might be no more than a later time as of which the leader is right.
func (f *Follower) publish(known store.Known) {
	f.mu.Lock()
	f.asOf = known.AsOf
	if f.known && f.leader == known.Leader {
		f.mu.Unlock()
		return
	}
	e := Event{Kind: LeaderChanged, Leader: known.Leader}
	if !f.known && e.Leader.Revision == 0 {
		e.Kind = noLeaderYet
	}
	f.known, f.leader = true, e.Leader
	close(f.changed)
	f.changed = make(chan struct{})
	f.mu.Unlock()
	f.notify(e)
}

// state returns what is known, and a channel that is closed when that changes.
func (f *Follower) state() (leader Leader, known bool, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.leader, f.known, f.changed
}

// Leader returns the acknowledged leader and true, or false if there is no leader or nothing is known yet, when AsOf is zero.
// It does not block. Once the follower has ended, Leader returns what was known last.
func (f *Follower) Leader() (Leader, bool) {
	f.Start()
	leader, known, _ := f.state()
	return leader, known && leader.Revision != 0
}

// Election returns the name of the follower's election.
func (f *Follower) Election() string { return f.election }

// Err returns what ended the follower, such as ErrStopped, or nil.
func (f *Follower) Err() error { return context.Cause(f.ctx) }

// Wait returns the leader as soon as there is one. When ctx or the follower ends, it returns the cause of ctx or Err.
func (f *Follower) Wait(ctx context.Context) (Leader, error) {
	f.Start()
	leader, err := f.next(ctx, nil)
	for err == nil && leader.Revision == 0 {
		leader, err = f.next(ctx, &leader)
	}
	return leader, err
}

// Changes iterates over the leaders: the present one as soon as it is known, the zero Leader if there is none, then each that
// differs from the one before. It yields nothing more once ctx or the follower has ended; then Err tells why the follower has.
func (f *Follower) Changes(ctx context.Context) iter.Seq[Leader] {
	f.Start()
	return func(yield func(Leader) bool) {
		leader, err := f.next(ctx, nil)
		for err == nil && yield(leader) {
			leader, err = f.next(ctx, &leader)
		}
	}
}

// next waits until the state is known and differs from last, and returns it.
func (f *Follower) next(ctx context.Context, last *Leader) (Leader, error) {
	for {
		leader, known, changed := f.state()
		switch {
		case ctx.Err() != nil:
			return Leader{}, context.Cause(ctx)
		case f.ctx.Err() != nil:
			return Leader{}, context.Cause(f.ctx)
		case known && (last == nil || leader != *last):
			return leader, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-f.ctx.Done():
		}
	}
}

// Stop ends the follower for good, and returns at once. It may be called again, and before anything else.
func (f *Follower) Stop() {
	f.end(ErrStopped)
	f.tasks.stop()
}

// Done returns a channel that is closed when nothing of the follower is left.
func (f *Follower) Done() <-chan struct{} { return f.tasks.done }

// AsOf returns the local time as of which Leader is known to be right: what Leader returns reflects all changes before it.
// While the service answers, it is no older than half the store's TTL and two round trips. It is zero before anything is
// known. A suspension of the machine makes it older.
func (f *Follower) AsOf() time.Time {
	asOf := f.confirmed()
	if age := suspension.Since(asOf); age > time.Since(asOf) {
		return time.Now().Add(-age)
	}
	return asOf
}

// confirmed returns the time that came with the last answer.
func (f *Follower) confirmed() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asOf
}

// Fresh reports whether AsOf is less than the store's TTL ago. A healthy store confirms it several times in that time.
func (f *Follower) Fresh() bool {
	return suspension.Since(f.confirmed()) < f.store.TTL()
}

// String returns the election and the store.
func (f *Follower) String() string {
	return fmt.Sprintf("follower of election %q on %s", f.election, redact.Name(f.store))
}
