package postgres

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// keep keeps a session, and returns when the last renewal that was answered was sent, and what ends it.
func keep(t *testing.T, d *driver) (last func() time.Duration, stop func()) {
	s, proof, err := d.Open(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	var mu sync.Mutex
	sent := proof.Sent
	go func() {
		ended <- s.Keep(ctx, func(p engine.Proof) {
			mu.Lock()
			defer mu.Unlock()
			if p.Sent.Time().After(sent.Time()) {
				sent = p.Sent
			}
		})
	}()
	stop = func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	}
	last = func() time.Duration {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		return sent.Since(time.Now())
	}
	return last, stop
}

// An old primary answers, and its commits wait for its standby, which has been promoted. Renewals go to the new primary
// before the lease ends, and so does all else. While the other server is a standby, the one that does not answer is tried
// again.
func TestCommitsThatHang(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second, Addresses: []string{"a:1", "b:1"}}, func(t *testing.T, f *fakeServer, d *driver) {
		f.epoch, f.standbys["b:1"] = 1, true
		f.answer["renew"] = func(args []string) []any { return []any{args[0], int64(7), int64(24_000)} }
		idle, stop := keep(t, d)
		time.Sleep(30 * time.Second)
		require.LessOrEqual(t, idle(), 4*time.Second)
		f.set(func() { f.hangs["renew@a:1"] = true })
		time.Sleep(8 * time.Second)
		synctest.Wait()
		f.set(func() { f.standbys["b:1"], f.epochs = false, map[string]int{"b:1": 2} })
		for range 20 {
			time.Sleep(time.Second)
			require.Less(t, idle(), 16*time.Second, "the lease has ended")
		}
		require.LessOrEqual(t, idle(), 4*time.Second)
		time.Sleep(time.Minute)
		f.mu.Lock()
		for c := range f.conns {
			require.Equal(t, "b:1", c.address)
		}
		f.mu.Unlock()
		stop()
	})
}

// A primary stands still, and its standby is promoted a while later, when connections to the primary are being made. The
// session is renewed on the new primary before the lease ends, whenever the primary stopped.
func TestPausedPrimary(t *testing.T) {
	for paused := range 6 {
		for promoted := range 11 - paused%4 {
			inBubble(t, Config{TTL: 24 * time.Second, Addresses: []string{"a:1", "b:1"}}, func(t *testing.T, f *fakeServer, d *driver) {
				f.epoch, f.standbys["b:1"] = 1, true
				f.answer["renew"] = func(args []string) []any { return []any{args[0], int64(7), int64(24_000)} }
				idle, stop := keep(t, d)
				time.Sleep(time.Duration(24+paused)*time.Second + time.Millisecond)
				f.set(func() { f.stuck["a:1"] = true })
				for second := range 20 {
					if second == promoted {
						f.set(func() { f.standbys["b:1"], f.epochs = false, map[string]int{"b:1": 2} })
					}
					time.Sleep(time.Second)
					require.Less(t, idle(), 16*time.Second, "the lease has ended: paused after %d s, promoted after %d s more", paused, promoted)
				}
				stop()
			})
		}
	}
}

// After a failover renewals count once everything that is watched has been read. Then the session is renewed at once: the
// lease might end before the next renewal is due.
func TestRenewalOnceAllIsRead(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		f.epoch = 1
		f.answer["renew"] = func(args []string) []any { return []any{args[0], int64(7), int64(24_000)} }
		idle, stop := keep(t, d)
		time.Sleep(25 * time.Second)
		f.set(func() { f.epoch, f.hangs["look"] = 2, true })
		f.drop()
		time.Sleep(4 * time.Second)
		require.Equal(t, 5*time.Second, idle(), "the renewal at 28 s does not count")
		f.release()
		require.Zero(t, idle())
		stop()
	})
}

// Every other renewal is sent on a connection that falls silent. The others go over another one, and no lease ends.
func TestSilentConnections(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		f.answer["renew"] = func(args []string) []any { return []any{args[0], int64(7), int64(24_000)} }
		idle, stop := keep(t, d)
		f.set(func() { f.other["renew"] = 0 })
		for range 240 {
			time.Sleep(time.Second)
			require.LessOrEqual(t, idle(), 10*time.Second, "two renewals, and a connection that is made")
		}
		require.LessOrEqual(t, f.open(), 1+2*mostConns)
		f.set(func() { delete(f.other, "renew") })
		time.Sleep(2 * time.Minute)
		require.LessOrEqual(t, f.open(), 3, "those that are silent are closed")
		stop()
	})
}

// A connection that is slow, and answers after a while, is used on.
func TestSlowConnection(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		_, err := request(t.Context(), d)
		require.NoError(t, err)
		f.set(func() { f.hangs["remove"] = true })
		answered := make(chan error)
		go func() { _, err := ask[nothing](t.Context(), d, "remove($1, $2)", "", 1); answered <- err }()
		time.Sleep(10 * time.Second)
		f.release()
		require.NoError(t, <-answered)
		synctest.Wait() // until the connection is given back
		for range 3 {
			took, err := request(t.Context(), d)
			require.NoError(t, err)
			require.Zero(t, took)
		}
		require.Len(t, f.dials(), 2)
		require.Zero(t, d.losses.Load())
	})
}

// The server refuses another connection, and the one that is there is busy. Requests wait for that one, and the session
// is not given up. When the last connection has gone, they are told of the refusal.
func TestDeniedExtraConnection(t *testing.T) {
	for _, code := range []string{"28P01", "53300"} {
		inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
			f.answer["renew"] = func(args []string) []any { return []any{args[0], int64(7), int64(24_000)} }
			idle, stop := keep(t, d)
			time.Sleep(5 * time.Second)
			f.set(func() { f.refuses["a:1"], f.hangs["remove"] = code, true })
			go func() { _, _ = ask[nothing](t.Context(), d, "remove($1, $2)", "", 1) }()
			time.Sleep(5 * time.Second)
			synctest.Wait()
			f.release()
			require.LessOrEqual(t, idle(), 4*time.Second)
			require.Greater(t, len(f.dials()), 2, "another connection was tried")
			stop()
			f.drop()
			_, err := request(t.Context(), d) // which might find that the connection is lost
			require.Error(t, err)
			_, err = request(t.Context(), d)
			want := map[string]error{"28P01": store.ErrDenied, "53300": store.ErrUnavailable}[code]
			require.ErrorIs(t, err, want)
		})
	}
}

// All connections are lost, and the next ones are refused for a while, as when a password changes: the session is kept.
func TestDeniedConnection(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		f.answer["renew"] = func(args []string) []any { return []any{args[0], int64(7), int64(24_000)} }
		idle, stop := keep(t, d)
		time.Sleep(5 * time.Second)
		f.set(func() { f.refuses["a:1"] = "28P01" })
		f.drop()
		time.Sleep(8 * time.Second)
		f.set(func() { delete(f.refuses, "a:1") })
		time.Sleep(4 * time.Second)
		require.LessOrEqual(t, idle(), 4*time.Second)
		stop()
	})
}

// The first look on a connection takes longer than the others may: it is awaited. A look that is silent later is not.
func TestFirstLookIsAwaited(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		f.hangs["look"] = true
		answered := make(chan error)
		go func() { answered <- d.Confirm(t.Context()) }()
		time.Sleep(10 * time.Second)
		f.release()
		require.NoError(t, <-answered)
		require.Zero(t, d.losses.Load())
		require.NoError(t, d.Confirm(t.Context()))
		f.set(func() { f.hangs["look"] = true })
		began := time.Now()
		require.Error(t, d.Confirm(t.Context()))
		require.Equal(t, 4*time.Second, time.Since(began))
		f.release()
	})
}
