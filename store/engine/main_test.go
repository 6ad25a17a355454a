package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ttl  = 10 * time.Second
	pace = ttl / 4
)

var (
	errLater  = fmt.Errorf("%w: no answer", store.ErrUnknownOutcome)
	errUnsent = fmt.Errorf("%w: no connection", store.ErrUnavailable)
)

// scene is an engine on a scripted driver, in virtual time.
type scene struct {
	*testing.T
	*Engine
	*scripted
}

// scripted is a driver that does nothing by itself: each request waits until the test answers it. So every interleaving
// stands still.
type scripted struct {
	confirms atomic.Bool // Confirm waits for an answer, too
	firsts   atomic.Bool // First does
	deaf     atomic.Bool // requests outlast their contexts
	stopping func()      // is called when a watch is taken back, if it is set

	mu       sync.Mutex
	waiting  []*request       // guarded by mu, as are all below
	session  *scriptedSession // the one that was opened last
	sessions int
	asked    int // how many requests there were
	closed   bool
}

// request is a call of the driver.
type request struct {
	driver   *scripted
	op       string
	ctx      context.Context
	election string
	key      string // of an entry
	value    string
	nonce    Nonce
	removal  Removal
	led      []Removal
	tell     Tell
	stopped  bool // its watch was taken back; guarded by the scene's mu
	reply    chan answer
}

type answer struct {
	err      error
	entry    Entry
	place    Place
	revision uint64
	stream   uint64
	list     []store.Standing
	peer     Peer
	first    State
}

// play runs a test. The store is closed at its end, when all that still waits is answered with success.
func play(t *testing.T, settings Settings, test func(t *testing.T, s *scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scene{T: t, scripted: &scripted{}}
		settings.Name, settings.TTL, settings.RemovedReason = "test://", ttl, "it was removed"
		settings.Pace = cmp.Or(settings.Pace, pace)
		settings.VirtualTime = true
		s.Engine = New(s.scripted, settings)
		synctest.Wait()
		defer s.end()
		test(t, s)
	})
}

// playLeading is play with a ballot that is first, and the watch of its entry.
func playLeading(t *testing.T, test func(t *testing.T, s *scene, b *ballot, own *request)) {
	t.Helper()
	play(t, Settings{}, func(t *testing.T, s *scene) {
		b, own := s.leading(1)
		test(t, s, b, own)
	})
}

// playWaiting is play with a ballot that waits behind others, and the watches of its entry and the nearest.
func playWaiting(t *testing.T, place Place, test func(t *testing.T, s *scene, b *ballot, own, prev *request)) {
	t.Helper()
	play(t, Settings{}, func(t *testing.T, s *scene) {
		b, own, prev := s.waitingBehind(place)
		test(t, s, b, own, prev)
	})
}

// end closes the store, unless the test has begun to: a second Close waits for the first by a mutex, which is no state of
// rest for synctest.
func (s *scene) end() {
	s.Engine.mu.Lock()
	begun := s.ended
	s.Engine.mu.Unlock()
	if !begun {
		go func() { _ = s.Engine.Close() }()
	}
	for range 1000 {
		if s.isClosed() {
			return
		}
		for _, r := range s.all() {
			r.answer(answer{})
		}
		time.Sleep(10 * time.Millisecond) // in all, longer than Close waits for anything
	}
	s.Error("Close does not return")
}

func (s *scripted) ask(ctx context.Context, r *request) answer {
	r.driver, r.ctx, r.reply = s, ctx, make(chan answer, 1)
	s.mu.Lock()
	s.waiting = append(s.waiting, r)
	s.asked++
	s.mu.Unlock()
	select {
	case a := <-r.reply:
		return a
	case <-ctx.Done():
		if s.deaf.Load() {
			return <-r.reply
		}
		s.take(r)
		return answer{err: fmt.Errorf("%w: %w", store.ErrUnknownOutcome, context.Cause(ctx))}
	}
}

func (s *scripted) take(r *request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = slices.DeleteFunc(s.waiting, func(o *request) bool { return o == r })
}

func (s *scripted) all() []*request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.waiting)
}

// next returns the request that waits longest, which is the given one.
func (s *scene) next(op string) *request {
	s.Helper()
	synctest.Wait()
	waiting := s.all()
	require.NotEmpty(s, waiting, "%s is not sent", op)
	require.Equal(s, op, waiting[0].op)
	return waiting[0]
}

// find returns the request with the given operation that waits longest.
func (s *scene) find(op string) *request {
	s.Helper()
	synctest.Wait()
	for _, r := range s.all() {
		if r.op == op {
			return r
		}
	}
	require.Fail(s, op+" is not sent")
	return nil
}

// quiet checks that nothing waits for an answer.
func (s *scene) quiet() {
	s.Helper()
	synctest.Wait()
	for _, r := range s.all() {
		require.Fail(s, "not quiet", "%s %s", r.op, r.key)
	}
}

// count returns how many requests of an operation wait.
func (s *scene) count(op string) (n int) {
	synctest.Wait()
	for _, r := range s.all() {
		if r.op == op {
			n++
		}
	}
	return n
}

// answer answers and waits until everything is at rest.
func (r *request) answer(a answer) {
	r.driver.take(r)
	r.reply <- a
	synctest.Wait()
}

// fail answers with an error.
func (r *request) fail(err error) { r.answer(answer{err: err}) }

// shows tells a state of the key and says that the watch is set, on stream 1 unless another is given.
func (r *request) shows(state State, stream ...uint64) *request {
	r.tell(News{State: &state})
	a := answer{stream: 1}
	if len(stream) > 0 {
		a.stream = stream[0]
	}
	r.answer(a)
	return r
}

// tells tells news of a watch that is set.
func (r *request) tells(n News) { r.tell(n); synctest.Wait() }

// goes tells that the entry has gone.
func (r *request) goes() { r.tells(News{State: &State{}}) }

func (r *request) isStopped() bool {
	r.driver.mu.Lock()
	defer r.driver.mu.Unlock()
	return r.stopped
}

// What tests do.

// call is a call in a goroutine of its own.
type call[T any] struct {
	done  chan struct{}
	value T
	err   error
}

func start[T any](f func() (T, error)) *call[T] {
	c := &call[T]{done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.value, c.err = f()
	}()
	synctest.Wait()
	return c
}

func (c *call[T]) returned() bool {
	synctest.Wait()
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// succeeds checks that the call has returned without an error.
func (c *call[T]) succeeds(t testing.TB) {
	t.Helper()
	require.True(t, c.returned())
	require.NoError(t, c.err)
}

// fails checks that the call has returned such an error.
func (c *call[T]) fails(t testing.TB, want error) {
	t.Helper()
	require.True(t, c.returned())
	require.ErrorIs(t, c.err, want)
}

func (s *scene) casting(ctx context.Context, election string) *call[store.Ballot] {
	return start(func() (store.Ballot, error) { return s.Engine.Cast(ctx, election, "value") })
}

func (s *scene) wait(b store.Ballot) *call[struct{}] {
	return start(func() (struct{}, error) { return struct{}{}, b.Wait(context.Background()) })
}

func (s *scene) withdraw(ctx context.Context, b store.Ballot) *call[struct{}] {
	return start(func() (struct{}, error) { return struct{}{}, b.Withdraw(ctx) })
}

func (s *scene) acknowledge(b store.Ballot) *call[store.Leader] {
	return start(func() (store.Leader, error) { return b.Acknowledge(context.Background(), "value") })
}

// entered is the answer that makes an entry with the token, behind those given: the nearest, and whether there are more.
func entered(token uint64, place Place) answer {
	return answer{entry: Entry{Key: "own" + strconv.FormatUint(token, 10), Token: token, Place: place}}
}

// cast casts a ballot in election "x", in the session that is open or the next one.
func (s *scene) cast(token uint64, place Place) *ballot {
	s.Helper()
	c := s.casting(s.Context(), "x")
	if s.count("Open") > 0 {
		s.find("Open").answer(answer{})
	}
	s.find("Enter").answer(entered(token, place))
	c.succeeds(s)
	return c.value.(*ballot)
}

// leading casts a ballot that is first, and watched.
func (s *scene) leading(token uint64) (b *ballot, own *request) {
	s.Helper()
	b = s.cast(token, Place{})
	own = s.next("Entry").shows(State{Token: token, Session: s.scripted.session.ID()})
	require.NoError(s, b.Wait(s.Context()))
	return b, own
}

// behind is the place of a ballot with one other ahead.
var behind = Place{Nearest: "other"}

// other is the state of that one.
var other = State{Token: 1, Session: "another session"}

// waiting casts a ballot with token 7 that waits behind others, and shows what is watched.
func (s *scene) waitingBehind(place Place, streams ...uint64) (b *ballot, own, prev *request) {
	s.Helper()
	b = s.cast(7, place)
	prev = s.next("Entry")
	require.Equal(s, place.Nearest, prev.key)
	prev.shows(other, streams...)
	own = s.next("Entry")
	require.Equal(s, "own7", own.key)
	own.shows(State{Token: 7, Session: s.scripted.session.ID()}, streams...)
	s.quiet()
	require.False(s, b.isFirst())
	require.Error(s, own.ctx.Err(), "each read ends its context: as many would stay as are made")
	return b, own, prev
}

func (b *ballot) isFirst() bool {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return closed(b.first)
}

func (b *ballot) isLost() bool {
	synctest.Wait()
	return b.Err() != nil
}

func (s *scene) holds(b *ballot) bool {
	_, ok := b.Lease().Span()
	return ok
}

var errDisk = errors.New("the disk is full")

// The driver.

func (s *scripted) Open(ctx context.Context) (Session, Proof, error) {
	sent := store.Now()
	a := s.ask(ctx, &request{op: "Open"})
	if a.err != nil {
		return nil, Proof{}, a.err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions++
	s.session = &scriptedSession{driver: s, id: strconv.Itoa(s.sessions), over: make(chan error)}
	return s.session, Proof{Sent: sent, Valid: ttl * 2 / 3}, nil
}

func (s *scripted) watch(ctx context.Context, r *request) (Watch, error) {
	a := s.ask(ctx, r)
	return Watch{Stream: a.stream, Stop: func() {
		if s.stopping != nil {
			s.stopping()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.stopped {
			panic("a watch is stopped twice")
		}
		r.stopped = true
	}}, a.err
}

func (s *scripted) WatchEntry(ctx context.Context, key string, tell Tell) (Watch, error) {
	return s.watch(ctx, &request{op: "Entry", key: key, tell: tell})
}

func (s *scripted) WatchLeader(ctx context.Context, election string, tell Tell) (Watch, error) {
	return s.watch(ctx, &request{op: "Leader", election: election, tell: tell})
}

func (s *scripted) Ahead(ctx context.Context, e Entry) (Place, error) {
	a := s.ask(ctx, &request{op: "Ahead", election: e.Election, key: e.Key})
	return a.place, a.err
}

// First answers at once that there is none, unless the test looks at what the engine asks.
func (s *scripted) First(ctx context.Context, election string) (State, error) {
	if !s.firsts.Load() {
		return State{}, nil
	}
	a := s.ask(ctx, &request{op: "First", election: election})
	return a.first, a.err
}

func (s *scripted) Confirm(ctx context.Context) error {
	if s.confirms.Load() {
		return s.ask(ctx, &request{op: "Confirm"}).err
	}
	return nil
}

func (s *scripted) Ballots(ctx context.Context, election string) ([]store.Standing, error) {
	a := s.ask(ctx, &request{op: "Ballots", election: election})
	return a.list, a.err
}

func (s *scripted) RequestResignation(ctx context.Context, election string, token uint64) error {
	return s.ask(ctx, &request{op: "RequestResignation", election: election, key: strconv.FormatUint(token, 10)}).err
}

func (s *scripted) Elections(context.Context) ([]string, error) { return nil, errors.ErrUnsupported }

func (s *scripted) Clear(ctx context.Context, election string) error {
	return s.ask(ctx, &request{op: "Clear", election: election}).err
}

func (s *scripted) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

type scriptedSession struct {
	driver *scripted
	id     string
	over   chan error // what Keep returns
	renew  func(Proof)
	let    bool // Keep's context has ended
}

func (d *scriptedSession) ID() string { return "session " + d.id }

func (d *scriptedSession) Handover() []byte { return []byte("of " + d.id) }

func (d *scriptedSession) Keep(ctx context.Context, renewed func(Proof)) error {
	d.renew = renewed
	select {
	case err := <-d.over:
		return err
	case <-ctx.Done():
		d.let = true
		return ctx.Err()
	}
}

// ends makes Keep return.
func (d *scriptedSession) ends(err error) { d.over <- err; synctest.Wait() }

func (d *scriptedSession) End(ctx context.Context, led []Removal) error {
	return d.driver.ask(ctx, &request{op: "End", value: d.id, led: led}).err
}

func (d *scriptedSession) Enter(ctx context.Context, election string, n Nonce, value string) (Entry, error) {
	a := d.driver.ask(ctx, &request{op: "Enter", election: election, nonce: n, value: value})
	return a.entry, a.err
}

func (d *scriptedSession) Void(ctx context.Context, election string, n Nonce) error {
	return d.driver.ask(ctx, &request{op: "Void", election: election, nonce: n}).err
}

func (d *scriptedSession) Acknowledge(ctx context.Context, e Entry, value string) (uint64, error) {
	a := d.driver.ask(ctx, &request{op: "Acknowledge", election: e.Election, key: e.Key, value: value})
	return a.revision, a.err
}

func (d *scriptedSession) Remove(ctx context.Context, r Removal) error {
	return d.driver.ask(ctx, &request{op: "Remove", election: r.Election, key: r.Key, removal: r}).err
}
