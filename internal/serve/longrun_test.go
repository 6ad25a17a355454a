package serve

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A server that runs for long keeps nothing of the elections that it has forgotten: no goroutine, and no name.
func TestForgetsAll(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		w.start(Config{})
		require.NoError(t, w.lead(st, "job", "x").Withdraw(w.Context())) // the session of st begins
		pass(listEvery)
		pass(2 * ttl)
		before := runtime.NumGoroutine()
		for i := range 20 {
			b := w.lead(st, fmt.Sprint("job", i), "x")
			pass(listEvery)
			require.NoError(t, b.Withdraw(w.Context()))
		}
		w.get("/")
		w.mu.Lock()
		for _, e := range w.elections {
			e.listed = e.listed.Add(-forgetAfter)
		}
		w.mu.Unlock()
		pass(listEvery)
		w.get("/")
		pass(2 * ttl) // the store drops what it has observed
		require.Less(t, runtime.NumGoroutine(), before+10, "20 elections have gone")
		w.mu.Lock()
		defer w.mu.Unlock()
		require.Empty(t, w.elections)
		require.Empty(t, w.published.rows)
	})
}

// A leader that has gone, or come, while the store did not answer did so at a time that is not known.
func TestChangesInAnOutage(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		b := w.lead(st, "e", "db1")
		w.start(Config{})
		outage := func(during func()) {
			w.store.Faults().Cut()
			pass(time.Minute)
			during()
			w.store.Faults().Heal()
			pass(ttl)
		}
		outage(func() { require.NoError(t, b.Withdraw(w.Context())) })
		require.True(t, w.election("e").AtLeast)
		b = w.lead(st, "e", "db2")
		pass(time.Second)
		require.False(t, w.election("e").AtLeast)
		require.NotContains(t, w.get("/").Body.String(), `<td class="gap">1`, "it was longer")

		require.NoError(t, b.Withdraw(w.Context()))
		pass(time.Second)
		outage(func() { w.lead(st, "e", "db3") })
		require.True(t, w.election("e").AtLeast)
		require.NotContains(t, w.get("/").Body.String(), `<td class="gap">1`, "it was shorter")
	})
}

// slow is a browser that does not read.
type slow struct {
	*sink
	deadline time.Time
	ended    atomic.Bool
}

func (s *slow) SetWriteDeadline(t time.Time) error { s.deadline = t; return nil }

func (s *slow) Write([]byte) (int, error) {
	time.Sleep(time.Until(s.deadline))
	s.ended.Store(true)
	return 0, os.ErrDeadlineExceeded
}

// A browser that does not read loses its stream, and delays no other.
func TestSlowBrowser(t *testing.T) {
	virtual(t, func(w *world) {
		b := w.lead(w.open(), "e", "db1")
		w.start(Config{})
		began := time.Now()
		took := make(chan time.Duration, 1)
		go func() {
			w.ServeHTTP(&slow{sink: &sink{}}, httptest.NewRequest(http.MethodGet, "/events", nil))
			took <- time.Since(began)
		}()
		s, end := w.stream("")
		defer end()
		require.NoError(t, b.Withdraw(w.Context()))
		pass(2 * publishEvery)
		list, _, _ := s.take(t)
		require.NotEmpty(t, list[len(list)-1].Changes)
		require.Less(t, time.Since(began), writeTimeout)
		require.Equal(t, writeTimeout, <-took)

		last := &slow{sink: &sink{}}
		go w.ServeHTTP(last, httptest.NewRequest(http.MethodGet, "/events", nil))
		pass(time.Millisecond)
		require.NoError(t, w.Server.Close())
		require.True(t, last.ended.Load(), "Close waits for all streams")
	})
}

// Changes for which the disk is too slow are counted, in the log and on the page.
func TestHistoryOnASlowDisk(t *testing.T) {
	path := t.TempDir() + "/fifo"
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	r, err := os.Open(path)
	require.NoError(t, err)
	told := make(chan error, 10*mostChanges)
	h := &history{path: path, file: file, lines: make(chan Change, 1), done: make(chan struct{}), tell: func(_ string, err error) { told <- err }}
	go h.run()
	long := Change{Election: strings.Repeat("e", 1<<17)} // more than a pipe holds
	for h.lost.Load() == 0 {
		h.add(long)
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	require.ErrorContains(t, <-told, "the disk does not keep up: ")
	for err := error(os.ErrInvalid); err != nil; err = <-told { // until the disk keeps up
		h.add(Change{Election: "e"})
	}
	require.NoError(t, h.end())
	require.NoError(t, r.Close())
}
