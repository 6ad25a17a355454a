package fitness_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/fitness"
	"github.com/go-leadership/leadership/internal/suspension"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDisk = errors.New("the disk is full")

// world runs checks that the test decides on.
type world struct {
	*testing.T
	*fitness.Checks
	finds   atomic.Pointer[func(ctx context.Context) error]
	made    atomic.Int32
	changes []error
}

// virtual runs checks in virtual time: the first at once, each second from then on, or a second after the one before.
func virtual(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t}
		w.Checks = &fitness.Checks{
			Check: func(ctx context.Context) error { w.made.Add(1); return (*w.finds.Load())(ctx) },
			Every: time.Second, Timeout: time.Second / 2, Fall: 3, Rise: 2, Gate: make(chan struct{}, 1),
			Changed: func(why error) { w.changes = append(w.changes, why) },
		}
		w.find(errDisk)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.Checks.Run(ctx) }()
		test(w)
		cancel()
		<-done
	})
}

func (w *world) find(err error) { w.does(func(context.Context) error { return err }) }

func (w *world) does(check func(ctx context.Context) error) { w.finds.Store(&check) }

// pass lets some checks be made.
func (w *world) pass(checks int) {
	time.Sleep(time.Duration(checks) * time.Second)
	synctest.Wait()
}

// fit returns the present context of Fit, or nil.
func (w *world) fit() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	waits := 0
	fit, err := w.Fit(ctx, func() { waits++; cancel() })
	cancel()
	require.Equal(w, fit == nil, errors.Is(err, context.Canceled))
	require.Equal(w, fit == nil, waits == 1)
	return fit
}

// The checks are fit after Rise successes in a row, and unfit after Fall failures in a row.
func TestRiseAndFall(t *testing.T) {
	virtual(t, func(w *world) {
		require.Error(w, w.Err(), "nothing was checked")
		require.Error(w, w.Fresh())
		w.pass(0)
		require.Nil(w, w.fit())
		w.find(nil)
		w.pass(1)
		require.Nil(w, w.fit(), "one success")
		require.NoError(w, w.Err())
		w.find(errDisk)
		w.pass(1)
		w.find(nil)
		w.pass(1)
		require.Nil(w, w.fit(), "not in a row")
		waiting := make(chan context.Context, 1)
		go func() { fit, _ := w.Fit(context.Background(), func() {}); waiting <- fit }()
		w.pass(1)
		fit := w.fit()
		require.NotNil(w, fit)
		require.Equal(w, fit, <-waiting)
		require.Equal(w, []error{nil}, w.changes)
		require.NoError(w, w.Fresh())
		w.find(errDisk)
		w.pass(2)
		w.find(nil)
		w.pass(1)
		w.find(errDisk)
		w.pass(2)
		require.NoError(w, fit.Err(), "not in a row")
		require.Equal(w, errDisk, w.Err())
		require.Equal(w, errDisk, w.Fresh())
		w.pass(1)
		require.Equal(w, errDisk, context.Cause(fit))
		require.Nil(w, w.fit())
		require.Equal(w, []error{nil, errDisk}, w.changes)
	})
}

// A success is fresh for Every + Timeout, by a clock that counts suspensions.
func TestFresh(t *testing.T) {
	virtual(t, func(w *world) {
		w.find(nil)
		w.pass(3)
		w.does(func(ctx context.Context) error { time.Sleep(time.Second / 2 * 3); return nil }) // it takes too long
		time.Sleep(1500*time.Millisecond - 1)
		require.NoError(w, w.Fresh())
		time.Sleep(time.Second)
		require.Error(w, w.Fresh())
		w.find(nil)
		w.pass(3)
		require.NoError(w, w.Fresh())
		defer suspension.Simulate(time.Hour)()
		require.ErrorContains(w, w.Fresh(), "the last check was 1h0m")
	})
}

// A check that hangs has failed once for each Every + Timeout until it returns, and what it returns counts for nothing. There
// is no other one meanwhile.
func TestCheckThatHangs(t *testing.T) {
	virtual(t, func(w *world) {
		w.find(nil)
		w.pass(2)
		fit := w.fit()
		require.NotNil(w, fit)
		hangs := make(chan struct{})
		w.does(func(ctx context.Context) error { <-hangs; return ctx.Err() })
		w.pass(1)
		made := w.made.Load()
		time.Sleep(500*time.Millisecond + 2*1500*time.Millisecond - 1)
		require.NoError(w, fit.Err())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.EqualError(w, context.Cause(fit), "the check has not returned after 3.5s")
		w.pass(60)
		require.Equal(w, made, w.made.Load())
		w.find(nil)
		close(hangs)
		synctest.Wait()
		require.ErrorContains(w, w.Err(), "has not returned")
		w.pass(2)
		require.NotNil(w, w.fit())
	})
}

// A panic is a failure. The context of a check ends after Timeout.
func TestCheckThatPanics(t *testing.T) {
	virtual(t, func(w *world) {
		w.does(func(context.Context) error { panic("on purpose") })
		w.pass(1)
		require.ErrorContains(w, w.Err(), "on purpose")
		began := time.Now()
		w.does(func(ctx context.Context) error { <-ctx.Done(); time.Sleep(time.Millisecond); return errDisk })
		w.pass(2)
		require.EqualError(w, w.Err(), "the check has not returned after 500ms")
		require.WithinDuration(w, began, time.Now(), 2*time.Second)
	})
}

// No checks are always fit.
func TestNone(t *testing.T) {
	var none *fitness.Checks
	fit, err := none.Fit(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, fit.Err())
	require.NoError(t, none.Err())
	require.NoError(t, none.Fresh())
}
