package leadership_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
)

// fakeStore does what store/memory never does. Methods that a test does not replace go to the store below.
type fakeStore struct {
	store.Store
	cast    func(ctx context.Context, election, value string) (store.Ballot, error)
	observe func(ctx context.Context, election string, prev *store.Known) (store.Known, error)
	worked  func() bool
}

func (f *fakeStore) Cast(ctx context.Context, election, value string) (store.Ballot, error) {
	if f.cast == nil {
		return f.Store.Cast(ctx, election, value)
	}
	return f.cast(ctx, election, value)
}

func (f *fakeStore) Observe(ctx context.Context, election string, prev *store.Known) (store.Known, error) {
	if f.observe == nil {
		return f.Store.Observe(ctx, election, prev)
	}
	return f.observe(ctx, election, prev)
}

func (f *fakeStore) Worked() bool {
	if f.worked == nil {
		return f.Store.Worked()
	}
	return f.worked()
}

// changing returns a store that passes each ballot through a function before the core sees it.
func changing(st store.Store, change func(b *fakeBallot)) *fakeStore {
	return &fakeStore{
		Store: st,
		cast: func(ctx context.Context, election, value string) (store.Ballot, error) {
			ballot, err := st.Cast(ctx, election, value)
			if err != nil {
				return nil, err
			}
			b := &fakeBallot{Ballot: ballot, asked: new(atomic.Int32)}
			change(b)
			return b, nil
		},
	}
}

// fakeBallot is a ballot with some of its methods replaced.
type fakeBallot struct {
	store.Ballot
	token       uint64 // zero if it is not replaced
	lease       *store.Lease
	onLease     func() // called before the lease is returned
	lost        chan struct{}
	frozen      chan struct{} // while it is open, Lost does not return, except for the first call, from before the term
	asked       *atomic.Int32 // how often Lost was called; nil unless frozen
	wait        func(ctx context.Context) error
	acknowledge func(ctx context.Context, value string) (store.Leader, error)
	withdraw    func(ctx context.Context) error
}

func (b *fakeBallot) Token() uint64 {
	if b.token == 0 {
		return b.Ballot.Token()
	}
	return b.token
}

func (b *fakeBallot) Lease() *store.Lease {
	if b.onLease != nil {
		b.onLease()
	}
	if b.lease == nil {
		return b.Ballot.Lease()
	}
	return b.lease
}

func (b *fakeBallot) Lost() <-chan struct{} {
	if b.frozen != nil && b.asked.Add(1) > 1 {
		<-b.frozen
	}
	if b.lost == nil {
		return b.Ballot.Lost()
	}
	return b.lost
}

func (b *fakeBallot) Err() error {
	if b.lost == nil {
		return b.Ballot.Err()
	}
	select {
	case <-b.lost:
		return store.ErrLost
	default:
		return nil
	}
}

func (b *fakeBallot) Wait(ctx context.Context) error {
	if b.wait == nil {
		return b.Ballot.Wait(ctx)
	}
	return b.wait(ctx)
}

func (b *fakeBallot) Acknowledge(ctx context.Context, value string) (store.Leader, error) {
	if b.acknowledge == nil {
		return b.Ballot.Acknowledge(ctx, value)
	}
	return b.acknowledge(ctx, value)
}

func (b *fakeBallot) Withdraw(ctx context.Context) error {
	if b.withdraw == nil {
		return b.Ballot.Withdraw(ctx)
	}
	return b.withdraw(ctx)
}

// frozen returns a store with whose ballots nothing notices the end of a term, until resume is called.
func (w *world) frozen(st store.Store) (frozen *fakeStore, resume func()) {
	w.Helper()
	resumed := make(chan struct{})
	resume = sync.OnceFunc(func() { close(resumed) })
	w.Cleanup(resume)
	return changing(st, func(b *fakeBallot) { b.frozen = resumed }), resume
}

// failing is Observe of a store that fails some times and then reports the leader "a".
func failing(times int) func(context.Context, string, *store.Known) (store.Known, error) {
	return func(ctx context.Context, _ string, prev *store.Known) (store.Known, error) {
		if times--; times >= 0 {
			return store.Known{}, store.ErrUnavailable
		}
		if prev != nil {
			<-ctx.Done()
			return store.Known{}, ctx.Err()
		}
		return store.Known{Leader: store.Leader{Value: "a", Revision: 1}, AsOf: time.Now()}, nil
	}
}

// failingFirst returns a store whose first Cast and first Observe fail.
func failingFirst(st store.Store) *fakeStore {
	fake := &fakeStore{Store: st}
	fake.cast = func(context.Context, string, string) (store.Ballot, error) {
		fake.cast = nil
		return nil, store.ErrUnavailable
	}
	fake.observe = func(context.Context, string, *store.Known) (store.Known, error) {
		fake.observe = nil
		return store.Known{}, store.ErrUnavailable
	}
	return fake
}

// on returns options whose Events calls a function with each event of a kind.
func on(kind leadership.EventKind, f func(e leadership.Event)) *leadership.CandidateOptions {
	return &leadership.CandidateOptions{Events: func(e leadership.Event) {
		if e.Kind == kind {
			f(e)
		}
	}}
}

// telling returns options whose Events writes each event of some kinds, or of all, into a diary.
func telling(d *diary, kinds ...leadership.EventKind) *leadership.CandidateOptions {
	return &leadership.CandidateOptions{Events: func(e leadership.Event) {
		switch {
		case len(kinds) > 0 && !slices.Contains(kinds, e.Kind):
		case e.Err != nil:
			d.add("%v: %v", e.Kind, e.Err)
		default:
			d.add("%v", e.Kind)
		}
	}}
}

// withoutErrors returns options whose Events fails the test if an attempt fails.
func withoutErrors(w *world) *leadership.CandidateOptions {
	return on(leadership.AttemptFailed, func(e leadership.Event) { w.Errorf("an event has the error %q", e.Err) })
}

// diary keeps what happened, in order.
type diary struct {
	mu      sync.Mutex
	entries []string // guarded by mu
}

func (d *diary) add(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries = append(d.entries, fmt.Sprintf(format, args...))
}

func (d *diary) all() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.entries)
}

func (d *diary) count(entry string) (n int) {
	for _, e := range d.all() {
		if e == entry {
			n++
		}
	}
	return n
}

func (d *diary) has(entry string) bool { return d.count(entry) > 0 }

func (d *diary) clear() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.entries = nil
}

// journal keeps what a logger writes.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

// Write implements io.Writer.
func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// String returns all of it.
func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// logger returns a logger that writes into the journal.
func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

// heard returns options whose logger writes into the journal, as does Events if an attempt fails with an error that matches.
func (j *journal) heard(want error) *leadership.CandidateOptions {
	opts := on(leadership.AttemptFailed, func(e leadership.Event) {
		if errors.Is(e.Err, want) {
			fmt.Fprintln(j, "event:", e.Err)
		}
	})
	opts.Logger = j.logger()
	return opts
}

// handler is a log handler that calls a function with each message that it is given.
type handler struct {
	slog.Handler
	handle func(message string)
}

func (h handler) Enabled(context.Context, slog.Level) bool { return true }
func (h handler) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h handler) Handle(_ context.Context, r slog.Record) error {
	h.handle(r.Message)
	return nil
}

// handledBy returns options with such a handler.
func handledBy(handle func(message string)) *leadership.CandidateOptions {
	return &leadership.CandidateOptions{Logger: slog.New(handler{slog.DiscardHandler, handle})}
}
