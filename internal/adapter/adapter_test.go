package adapter_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errLater = fmt.Errorf("%w: no answer", store.ErrUnknownOutcome)

// answers is a service that gives one answer after the other, and the last one for ever.
type answers struct {
	mu   sync.Mutex
	list []error
	n    int
}

func (a *answers) next() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.list[min(a.n, len(a.list)-1)]
	a.n++
	return err
}

func (a *answers) asked() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.n
}

// end closes a life as a store does.
func end(l *adapter.Life) {
	l.Close()
	l.Stop()
	l.Wait()
}

func TestLifeEndsCallsBeforeTasks(t *testing.T) {
	l := adapter.NewLife("store", false, "a")
	call, done, err := l.Call(t.Context())
	require.NoError(t, err)
	defer done()
	stopped := make(chan error, 1)
	require.True(t, l.Go(func() {
		<-l.Background.Done()
		stopped <- call.Err()
	}))
	l.Close()
	<-call.Done()
	require.ErrorIs(t, context.Cause(call), store.ErrClosed)
	require.Empty(t, stopped, "the store's own work goes on")
	_, _, err = l.Call(t.Context())
	require.ErrorIs(t, err, store.ErrClosed)
	l.Stop()
	l.Wait()
	require.Error(t, <-stopped)
	require.False(t, l.Go(func() { t.Error("a task after the end") }))
}

func TestCallEndsWithItsContext(t *testing.T) {
	l := adapter.NewLife("store", false, "a")
	defer end(l)
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	call, done, err := l.Call(ctx)
	require.NoError(t, err)
	defer done()
	cancel(why)
	<-call.Done()
	require.ErrorIs(t, context.Cause(call), why)
	_, _, err = l.Call(ctx)
	require.ErrorIs(t, err, why)
}

func TestFailSaysItOnce(t *testing.T) {
	l := adapter.NewLife("store", false, "a")
	defer end(l)
	require.NoError(t, l.Fail("try", "e", nil))
	err := l.Fail("try", "e", store.ErrDenied)
	require.EqualError(t, err, `try in election "e" on store://a: permission denied`)
	require.Equal(t, err, l.Fail("wrap", "e", err))
}

func TestRepeat(t *testing.T) {
	for name, c := range map[string]struct {
		answers []error
		asked   int
		want    []error
	}{
		"at once":                {[]error{nil}, 1, nil},
		"until there is one":     {[]error{errLater, store.ErrUnavailable, nil}, 3, nil},
		"not what can't succeed": {[]error{errLater, store.ErrDenied}, 2, []error{store.ErrDenied}},
		"until the end":          {[]error{errLater}, 4, []error{context.DeadlineExceeded, store.ErrUnknownOutcome}},
		"the last is cut short": {
			[]error{store.ErrUnavailable, store.ErrUnavailable, store.ErrUnavailable, context.DeadlineExceeded}, 4,
			[]error{context.DeadlineExceeded, store.ErrUnavailable},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := adapter.NewLife("store", false, "a")
				defer end(l)
				ctx, cancel := context.WithTimeout(t.Context(), 120*time.Millisecond)
				defer cancel()
				service := &answers{list: c.answers}
				value, err := adapter.Repeat(ctx, l, "try", "e", func(context.Context) (int, error) { return 1, service.next() })
				require.Equal(t, c.asked, service.asked())
				if c.want == nil {
					require.NoError(t, err)
					require.Equal(t, 1, value)
				}
				for _, want := range c.want {
					require.ErrorIs(t, err, want)
				}
			})
		})
	}
}

// orphan is one whose removal a service answers.
type orphan struct {
	service *answers
	over    bool
}

func (o orphan) Over() bool { return o.over }

func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := adapter.NewLife("store", false, "a")
		refused := make(chan error, 10)
		q := adapter.NewOrphans(l, 8,
			func(_ context.Context, o orphan) error { return o.service.next() },
			func(_ orphan, err error) { refused <- err })
		l.Go(q.Sweep)
		later := &answers{list: []error{errLater, errLater, nil}}
		denied := &answers{list: []error{errLater, store.ErrDenied}}
		over := &answers{list: []error{nil}}
		q.Expect(1)
		q.Add(orphan{service: later})
		q.Add(orphan{service: denied})
		q.Add(orphan{service: over, over: true})
		require.Equal(t, 4, q.Left())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, 1, q.Left(), "the one that may come")
		require.Equal(t, 3, later.asked())
		require.Equal(t, 2, denied.asked())
		require.Zero(t, over.asked())
		require.Len(t, refused, 1)
		require.ErrorIs(t, <-refused, store.ErrDenied)

		never := &answers{list: []error{errLater}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := q.Withdraw(ctx, "e", orphan{service: never})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, store.ErrUnknownOutcome)
		asked := never.asked()
		time.Sleep(time.Second)
		synctest.Wait()
		require.Greater(t, never.asked(), asked, "Sweep goes on with it")
		end(l)
		require.Empty(t, refused)
	})
}

func TestBallot(t *testing.T) {
	l := adapter.NewLife("store", false, "a")
	defer end(l)
	b := adapter.NewBallot(l, "e")
	put := func(context.Context) (store.Leader, error) { return store.Leader{Value: "v", Revision: 7}, nil }
	_, err := b.Acknowledge(t.Context(), "v", put)
	require.ErrorIs(t, err, store.ErrNotFirst)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, b.Wait(ctx), context.Canceled)

	b.Lead()
	b.Lead()
	require.True(t, b.IsFirst())
	require.NoError(t, b.Wait(t.Context()))
	leader, err := b.Acknowledge(t.Context(), "v", put)
	require.NoError(t, err)
	require.Equal(t, store.Leader{Value: "v", Revision: 7}, leader)
	_, err = b.Acknowledge(t.Context(), string(make([]byte, store.MaxValue+1)), put)
	require.ErrorIs(t, err, store.ErrInvalid)
	_, err = b.Acknowledge(ctx, "v", put)
	require.ErrorIs(t, err, context.Canceled)

	require.NoError(t, b.Err())
	b.Lose("this")
	b.Lose("that")
	<-b.Lost()
	require.ErrorIs(t, b.Err(), store.ErrLost)
	require.EqualError(t, b.Err(), `stand in election "e" on store://a: ballot lost: this`)
	require.ErrorIs(t, b.Wait(t.Context()), store.ErrLost)
	_, err = b.Acknowledge(t.Context(), "v", put)
	require.ErrorIs(t, err, store.ErrLost)
}

func TestReadLeader(t *testing.T) {
	l := adapter.NewLife("store", false, "a")
	leader := store.Leader{Value: "v", Revision: 7}
	read := func(context.Context) (store.Leader, error) { return leader, nil }
	got, err := l.ReadLeader(t.Context(), "e", read)
	require.NoError(t, err)
	require.Equal(t, leader, got)
	_, err = l.ReadLeader(t.Context(), "", read)
	require.ErrorIs(t, err, store.ErrInvalid)
	_, err = l.ReadLeader(t.Context(), "e", func(context.Context) (store.Leader, error) { return store.Leader{}, store.ErrDenied })
	require.ErrorIs(t, err, store.ErrDenied)
	_, err = l.ReadLeader(t.Context(), "e", func(ctx context.Context) (store.Leader, error) {
		l.Close()
		return store.Leader{}, nil // the end of a leader whose ballot Close has removed
	})
	require.ErrorIs(t, err, store.ErrClosed)
	_, err = l.ReadLeader(t.Context(), "e", read)
	require.ErrorIs(t, err, store.ErrClosed)
	end(l)
}
