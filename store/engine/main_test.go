package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
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
	begun := s.closing
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
