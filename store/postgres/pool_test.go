package postgres

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// request sends a request, and returns how long it took.
func request(ctx context.Context, d *driver) (time.Duration, error) {
	began := time.Now()
	_, err := ask[nothing](ctx, d, "clear($1, $2)", nil, "")
	return time.Since(began), err
}

// hanging sends requests, of this function of the schema, that are not answered until the end of the test.
func hanging(t *testing.T, f *fakeServer, d *driver, n int) {
	f.set(func() { f.hangs["remove"] = true })
	for range n {
		go func() { _, _ = ask[nothing](t.Context(), d, "remove($1, $2)", "", 1) }()
	}
	synctest.Wait()
}

// The rule of the pool: one connection is enough for many requests, beside the one that listens. Only if none is free
// for a 24th of the TTL, or a second, another one is made.
func TestOneConnectionIsEnough(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		_, err := request(t.Context(), d)
		require.NoError(t, err)
		ended := make(chan error)
		for range 20 {
			go func() { _, err := request(t.Context(), d); ended <- err }()
		}
		for range 20 {
			require.NoError(t, <-ended)
		}
		require.Len(t, f.dials(), 2)

		hanging(t, f, d, 1)
		took, err := request(t.Context(), d)
		require.NoError(t, err)
		require.Equal(t, time.Second, took)
		require.Len(t, f.dials(), 3)
		took, err = request(t.Context(), d)
		require.NoError(t, err)
		require.Zero(t, took, "the new connection is kept")
	})
	for ttl, wait := range map[time.Duration]time.Duration{6 * time.Second: time.Second / 4, 10 * time.Minute: time.Second} {
		inBubble(t, Config{TTL: ttl}, func(t *testing.T, f *fakeServer, d *driver) {
			_, err := request(t.Context(), d)
			require.NoError(t, err)
			hanging(t, f, d, 1)
			took, err := request(t.Context(), d)
			require.NoError(t, err)
			require.Equal(t, wait, took)
		})
	}
}

// Each request that waits has a connection made, up to the number of places. Requests that have no answer for long leave
// theirs, up to the same number.
func TestConnectionsAreBounded(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		hanging(t, f, d, 20)
		time.Sleep(3 * time.Second)
		require.Equal(t, 1+requests, f.open())
		time.Sleep(5 * time.Second)
		require.Equal(t, 1+2*requests, f.open(), "the first have left their places")
		f.set(func() { f.hangs["renew"] = true })
		for range 20 {
			go func() { _, _, _ = query[renewRow](t.Context(), d, d.renewals, d.call("renew($1, $2)"), "a", 1) }()
		}
		time.Sleep(10 * time.Second)
		require.Equal(t, 1+2*mostConns, f.open())
	})
}

// A connection that was needed for a moment is closed after a minute, and the last one is kept.
func TestSpareConnectionIsClosed(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		hanging(t, f, d, 1)
		_, err := request(t.Context(), d)
		require.NoError(t, err)
		f.release()
		synctest.Wait()
		require.Equal(t, 3, f.open())
		for range 5 {
			time.Sleep(10 * time.Second)
			_, err = request(t.Context(), d)
			require.NoError(t, err)
		}
		require.Equal(t, 3, f.open())
		time.Sleep(10*time.Second + 1)
		_, err = request(t.Context(), d)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 2, f.open())
		time.Sleep(time.Hour)
		_, err = request(t.Context(), d)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 2, f.open())
		require.Len(t, f.dials(), 3)
	})
}

// The rule of a lost connection: the others are most likely lost, too, and a request on one of them would wait for its
// limit. So none of them is used again, not one that was in use either.
func TestLostConnection(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		hanging(t, f, d, 1)
		ended := make(chan error)
		f.set(func() { f.hangs["close"] = true })
		go func() { _, err := ask[nothing](t.Context(), d, "close($1)", ""); ended <- err }()
		time.Sleep(2 * time.Second)
		require.Equal(t, 3, f.open())
		f.set(func() {
			for _, c := range f.calls {
				if c.what == "close" {
					f.end(c.conn)
				}
			}
		})
		require.ErrorIs(t, <-ended, store.ErrUnknownOutcome, "it might have been carried out")
		require.EqualValues(t, 1, d.losses.Load())
		f.release()
		synctest.Wait()
		require.Equal(t, 1, f.open(), "the one that listens is left: it has a probe of its own")
		took, err := request(t.Context(), d)
		require.NoError(t, err)
		require.Zero(t, took)
		require.Len(t, f.dials(), 4)

		hanging(t, f, d, 1) // so that there are two
		_, err = request(t.Context(), d)
		require.NoError(t, err)
		f.release()
		synctest.Wait()
		require.Equal(t, 3, f.open())
		d.lostConnection()
		synctest.Wait()
		require.Equal(t, 1, f.open(), "those at rest are closed")
	})
}

// A request that waits for a connection ends with its context, and what it waited for is for the next one.
func TestWaitForAConnectionEnds(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		_, err := request(t.Context(), d)
		require.NoError(t, err)
		hanging(t, f, d, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		took, err := request(ctx, d)
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second/2, took)
		f.release()
		synctest.Wait()
		took, err = request(t.Context(), d)
		require.NoError(t, err)
		require.Zero(t, took, "the connection must not be given to a request that has ended")
		require.Len(t, f.dials(), 2)
	})
}

// A connection is given at the moment at which its request gives up: the connection is not lost for the others.
func TestGivenTooLate(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		_, err := request(t.Context(), d)
		require.NoError(t, err)
		for range 100 {
			hanging(t, f, d, 1)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
			time.AfterFunc(time.Second/2, f.release)
			_, _ = request(ctx, d)
			cancel()
			synctest.Wait()
			took, err := request(t.Context(), d)
			require.NoError(t, err)
			require.Zero(t, took)
		}
		require.Len(t, f.dials(), 2)
	})
}

// Those that wait get a connection in the order in which they came.
func TestWaitingInOrder(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		_, err := request(t.Context(), d)
		require.NoError(t, err)
		hanging(t, f, d, 1)
		var order []string
		f.set(func() {
			f.answer["close"] = func(args []string) []any {
				order = append(order, args[0])
				return []any{""}
			}
		})
		for _, id := range []string{"1", "2", "3"} {
			go func() { _, _ = ask[nothing](t.Context(), d, "close($1)", id) }()
			synctest.Wait()
		}
		f.release()
		synctest.Wait()
		require.Equal(t, []string{"1", "2", "3"}, order)
	})
}

// A connection that was being made while another one was lost might be to the server that has gone: the request gets
// the next one.
func TestLossWhileConnecting(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		require.NoError(t, d.Confirm(t.Context()))
		d.lostConnection()
		f.set(func() { f.slow = 5 * time.Second })
		time.AfterFunc(2*time.Second, d.lostConnection)
		took, err := request(t.Context(), d)
		require.NoError(t, err)
		require.Equal(t, 10*time.Second, took)
		require.Equal(t, 2, f.open())
	})
}

// No more connections are made than requests may be under way.
func TestMostConnections(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		grows := func(open int) bool {
			d.pool.mu.Lock()
			defer d.pool.mu.Unlock()
			d.pool.open, d.pool.waiting = open, []chan connRequest{make(chan connRequest, 1)}
			d.grow()
			defer func() { d.pool.open, d.pool.waiting = 0, nil }()
			return d.pool.dialing > 0
		}
		require.False(t, grows(mostConns))
		require.True(t, grows(mostConns-1))
		synctest.Wait()
	})
}

// If no connection can be made, all that wait get the error at once.
func TestNoConnection(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		_, err := request(t.Context(), d)
		require.NoError(t, err)
		f.set(func() { f.away["a:1"] = true })
		f.drop()
		synctest.Wait()
		ended := make(chan error)
		for range 10 {
			go func() { _, err := request(t.Context(), d); ended <- err }()
		}
		for range 10 {
			require.ErrorIs(t, <-ended, store.ErrUnavailable)
		}
		f.set(func() { f.away["a:1"] = false })
		_, err = request(t.Context(), d)
		require.NoError(t, err, "their places are free")
	})
}

// The connection was lost while it was idle: nothing was sent, and the error says so.
func TestIdleConnectionIsLost(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		_, err := request(t.Context(), d)
		require.NoError(t, err)
		f.set(func() {
			for c := range f.conns {
				if !c.listens {
					f.end(c)
				}
			}
		})
		_, err = request(t.Context(), d)
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.NotErrorIs(t, err, store.ErrUnknownOutcome)
		require.EqualValues(t, 1, d.losses.Load())
		_, err = request(t.Context(), d)
		require.NoError(t, err)
	})
}

// The driver is being closed when a request of its own, such as one to end a session, gets its connection: the
// connection is closed, and so are all others.
func TestCloseMeanwhile(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		_, err := request(t.Context(), d)
		require.NoError(t, err)
		c, err := d.take(t.Context())
		require.NoError(t, err)
		d.life.Stop()
		synctest.Wait()
		d.pool.mu.Lock()
		c.losses = d.losses.Load() // the link's end counts as a loss
		d.pool.idle = append(d.pool.idle, c)
		d.pool.mu.Unlock()
		_, _, err = query[nothing](t.Context(), d, d.requests, d.call("close($1)"), "")
		require.ErrorIs(t, err, store.ErrClosed)
		require.Empty(t, f.called("close"))
	})
}
