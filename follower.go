package leadership

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/redact"
	"github.com/go-leadership/leadership/internal/suspension"
	"github.com/go-leadership/leadership/internal/teller"
	"github.com/go-leadership/leadership/store"
)

// Follower learns who leads an election. It writes nothing to the store, and survives outages of the store by itself;
// Fresh and AsOf tell how old its knowledge is. It ends with Stop, and with a permanent error, as Candidate.Run does.
// A denial ends it as it ends Candidate.Run: only if the store has never worked, and denies for 40 s. It begins to
// follow at the first call of Start, FollowElection, Leader, Wait or Changes. Its methods may be called from any number of
// goroutines, and from its own callbacks and hooks: none of them waits for the function that calls it. Do not wait for
// Done in one of them: Done is closed only after they have returned.
//
// One goroutine asks the store for the next leader. All readers see the latest state; changes that come faster than
// they read are coalesced.
type Follower struct {
	news
	store store.Store
	tasks *tasks

	ctx context.Context // ends with Stop, or with a permanent error
	end context.CancelCauseFunc

	onNewLeader  callbacks[func(context.Context, Leader)]
	onLeaderGone callbacks[func(context.Context)]
	calls        *teller.Queue // of callBack, for the latest leader
	called       bool          // callBack was called, for calledFor; they belong to calls
	calledFor    Leader

	mu       sync.Mutex
	started  bool           // guarded by mu, as are all below
	known    bool           // the first answer has come
	leader   Leader         // what it was
	asOf     time.Time      // as of when leader is right
	changed  chan struct{}  // closed and replaced with each answer
	followed bool           // FollowElection was called
	channels leaderChannels // of FollowElection
}

// NewFollower returns a follower of the election. It sends nothing. It refuses a name that stores don't take, with an
// error that matches store.ErrInvalid.
func NewFollower(st store.Store, election string, opts *Options) (*Follower, error) {
	if err := checkStore(st, election); err != nil {
		return nil, err
	}
	f := &Follower{store: st, tasks: newTasks(), changed: make(chan struct{})}
	f.news = newNews(election, opts, f.tasks, f.channels.showError)
	f.calls = teller.NewQueue(1, f.tasks.run)
	f.ctx, f.end = context.WithCancelCause(context.Background())
	return f, nil
}

// Start begins to follow. It does not block; a second call does nothing, nor does one after Stop.
func (f *Follower) Start() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.start()
}

// start is Start. The caller holds mu.
func (f *Follower) start() {
	if f.started || f.ctx.Err() != nil {
		return
	}
	f.started = f.tasks.run(f.follow)
}

// follow asks for the next leader until the follower ends. No function of the user's runs here, since it might
// wait for an answer.
func (f *Follower) follow() {
	defer f.tasks.stop() // it has ended, by itself or by Stop
	defer f.closeChannels()
	if err := observe(f.ctx, f.store, f.ask, f.tell, f.publish); err != nil {
		f.say(slog.LevelError, "permanent error, the follower stops", "error", err)
		f.end(err)
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
	e := event{what: leaderChanged, leader: known.Leader}
	if !f.known && e.leader.Revision == 0 {
		e.what = noLeaderYet
	}
	f.known, f.leader = true, e.leader
	close(f.changed)
	f.changed = make(chan struct{})
	f.channels.show(e.leader)
	f.mu.Unlock()
	f.tell(e)
	f.calls.Add(leaderChanged, func() { f.callBack(e.leader) })
}

// state returns what is known, and a channel that is closed when that changes.
func (f *Follower) state() (leader Leader, known bool, changed <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.leader, f.known, f.changed
}

// Leader returns the acknowledged leader and true, or false if there is no leader or nothing is known yet; AsOf tells
// these two apart. It does not block; the first call starts the follower, if Start was not called. Once the follower has
// ended, which Err tells, it goes on returning what was known last, and AsOf when that was right.
func (f *Follower) Leader() (Leader, bool) {
	f.Start()
	leader, known, _ := f.state()
	return leader, known && leader.Revision != 0
}

// Election returns the name of the follower's election.
func (f *Follower) Election() string { return f.election }

// Err is nil while the follower goes on, and then ErrStopped or the error that ended it.
func (f *Follower) Err() error { return context.Cause(f.ctx) }

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
// anything more; if the follower ended, Err tells why.
func (f *Follower) Changes(ctx context.Context) iter.Seq[Leader] {
	f.Start()
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
			if known && ctx.Err() == nil && f.ctx.Err() == nil && (last == nil || leader != *last) {
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
			case <-f.ctx.Done():
				yield(Leader{}, context.Cause(f.ctx))
				return
			}
		}
	}
}

// FollowElection follows in the background, until Stop. The first channel carries the leader, the zero Leader if there is
// none: the present state as soon as it is known, then each that differs from the one read last. One that was not read is
// replaced by the next, so a slow or absent reader holds nothing up. The second channel carries errors,
// the latest replacing one that was not read. Both are closed after Stop, and after a permanent error, which is the last
// on the second channel. Call it once: later calls, and those after the follower has ended, return closed channels, the
// second with an error.
func (f *Follower) FollowElection() (<-chan Leader, <-chan error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.followed {
		return refused[Leader](errFollowed)
	}
	f.followed = true
	values, errs := f.channels.open(1)
	if f.known {
		f.channels.show(f.leader)
	}
	f.start() // now: the first error finds the channel open
	if err := f.Err(); err != nil {
		f.channels.close(err)
	}
	return values, errs
}

// errFollowed refuses a second call of FollowElection.
var errFollowed = errors.New("FollowElection was called before")

// closeChannels closes the channels of FollowElection, when the follower has ended.
func (f *Follower) closeChannels() {
	f.mu.Lock() // FollowElection opens none from now on
	defer f.mu.Unlock()
	last := f.Err()
	if errors.Is(last, ErrStopped) {
		last = nil
	}
	f.channels.close(last)
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

// AsOf returns the local time as of which Leader is known to be right: all changes before it are in what Leader returns,
// and later ones might be. While the service answers, it is no older than half the store's TTL and two round trips. It is
// zero before anything is known. If the machine was suspended since then, time.Since of what AsOf returns counts that, as a
// lease does; call AsOf again after a suspension.
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

// Fresh reports whether what Leader returns is known to have been right within the last TTL of the store: a healthy
// store confirms it several times in that time. It is false before anything is known, while the store is silent, after the
// machine was suspended for a TTL until the next confirmation, and some time after the follower has ended. Callers with
// another limit compare AsOf with it.
func (f *Follower) Fresh() bool {
	return suspension.Since(f.confirmed()) < f.store.TTL()
}

// String returns the election and the store.
func (f *Follower) String() string {
	return fmt.Sprintf("follower of election %q on %s", f.election, redact.Name(f.store))
}

// Format implements fmt.Formatter: with every verb it prints what String returns.
func (f *Follower) Format(s fmt.State, verb rune) { redact.Format(s, verb, f.String()) }
