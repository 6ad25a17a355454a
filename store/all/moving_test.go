package all_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/whole"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// The move of docs/moving.md without a pause: a leader holds the old library's lock as well. Three old processes are
// replaced one by one, and one goes back; no two work at the same time.
func TestMoveWithoutAPause(t *testing.T) {
	whole.Need(t)
	srv := sharedEtcd(t)
	client, err := clientv3.New(clientv3.Config{Endpoints: srv.Addrs()})
	require.NoError(t, err)
	defer client.Close()

	var working, oldWork, newWork atomic.Int64
	work := func(ctx context.Context, done *atomic.Int64) error {
		if working.Add(1) != 1 {
			t.Error("two work")
		}
		done.Add(1)
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
		working.Add(-1)
		return nil
	}
	// oldLock waits for the old library's lock. The context that it returns ends when the lock is lost.
	oldLock := func(ctx context.Context) (context.Context, func(), error) {
		session, err := concurrency.NewSession(client, concurrency.WithTTL(30))
		if err != nil {
			return nil, nil, err
		}
		lock := concurrency.NewMutex(session, "/moving/old")
		if err := lock.Lock(ctx); err != nil {
			_ = session.Close()
			return nil, nil, err
		}
		ctx, cancel := context.WithCancel(ctx)
		context.AfterFunc(session.Ctx(), cancel)
		return ctx, func() { cancel(); _ = session.Close() }, nil // the end of the session gives the lock back
	}
	start := func(process func(ctx context.Context)) (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { process(ctx) })
		return func() { cancel(); running.Wait() }
	}
	oldProcess := func(ctx context.Context) {
		for ctx.Err() == nil {
			locked, unlock, err := oldLock(ctx)
			if err != nil {
				continue
			}
			_ = work(locked, &oldWork)
			unlock()
		}
	}
	newProcess := func(ctx context.Context) {
		st, err := etcd.Open(etcd.Config{Endpoints: srv.Addrs(), Prefix: "moving", TTL: 30 * time.Second})
		if !assert.NoError(t, err) {
			return
		}
		defer st.Close()
		c, err := leadership.NewCandidate(st, "job", "new", nil)
		if !assert.NoError(t, err) {
			return
		}
		_ = c.Run(ctx, func(ctx context.Context, term *leadership.Term) error {
			ctx, unlock, err := oldLock(ctx)
			if err != nil {
				return err
			}
			defer unlock()
			if err := term.Acknowledge(ctx); err != nil {
				return err
			}
			return work(ctx, &newWork)
		})
	}
	more := func(done *atomic.Int64) {
		before := done.Load()
		storetest.Eventually(t, func() bool { return done.Load() > before+2 }, "the work goes on")
	}

	var stops []func()
	for range 3 {
		stops = append(stops, start(oldProcess))
	}
	more(&oldWork)
	for i := range stops {
		stops[i]()
		stops[i] = start(newProcess)
		more(&newWork)
	}
	stops[0]()
	stops[0] = start(oldProcess)
	more(&oldWork)
	for _, stop := range stops {
		stop()
	}
}
