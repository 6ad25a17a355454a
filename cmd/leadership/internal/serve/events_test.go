package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
)

// sink takes a stream of events.
type sink struct {
	mu     sync.Mutex
	text   strings.Builder // guarded by mu
	header http.Header
	code   int
}

func (s *sink) Header() http.Header {
	if s.header == nil {
		s.header = http.Header{}
	}
	return s.header
}
func (s *sink) WriteHeader(code int) { s.code = code }
func (s *sink) Flush()               {}
func (s *sink) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

// take returns the updates that have come since the last call, and the length of their text.
func (s *sink) take(t *testing.T) (list []update, length int, last string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.text.String()
	s.text.Reset()
	for line := range strings.Lines(text) {
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			last = strings.TrimSpace(id)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			var u update
			require.NoError(t, json.Unmarshal([]byte(data), &u))
			list = append(list, u)
		}
	}
	return list, len(text), last
}

// stream opens a stream of what has changed since a version of the page.
func (w *world) stream(version string) (s *sink, end func()) {
	s = &sink{}
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.ServeHTTP(s, httptest.NewRequest(http.MethodGet, "http://localhost/events?since="+version, nil).WithContext(ctx))
	}()
	pass(time.Millisecond)
	return s, func() { cancel(); <-done }
}

// With many elections, an event has only what has changed. A browser that was away gets what it has
// missed, and a browser of another server all.
func TestEventsHaveWhatHasChanged(t *testing.T) {
	virtualWith(t, time.Hour, func(w *world) {
		const n = 60
		st := w.open()
		first := w.lead(st, "e1", "db1")
		for i := range n - 1 {
			w.lead(st, fmt.Sprint("e", 1000+i), "db1")
		}
		w.start(Config{})
		pass(10 * time.Second) // all queues are read
		page := w.get("/").Body.String()
		_, version, _ := strings.Cut(page, `data-version="`)
		version, _, _ = strings.Cut(version, `"`)
		t.Logf("the page has %d bytes", len(page))

		s, end := w.stream(version)
		list, _, _ := s.take(t)
		require.Len(t, list, 1)
		require.False(t, list[0].All)
		require.Empty(t, list[0].Rows, "the page has all")
		pass(30 * time.Second)
		list, length, version := s.take(t)
		require.Equal(t, 3, len(list), "one in 10 s says that the server lives")
		require.Less(t, length, 300)

		require.NoError(t, first.Withdraw(w.Context()))
		pass(time.Second)
		list, length, _ = s.take(t)
		require.NotEmpty(t, list)
		require.Less(t, length, 2000)
		require.Len(t, list[0].Rows, 1)
		require.Len(t, list[0].Changes, 1)
		require.NotEmpty(t, list[0].Page, "there is a problem now")
		end()

		s, end = w.stream(version)
		list, _, _ = s.take(t)
		require.Len(t, list[0].Rows, 1, "what it has missed")
		require.Len(t, list[0].Changes, 1)
		end()

		for _, foreign := range []string{"", "x", "-1", "1", fmt.Sprint(w.published.seq + 1), "99999999999999999999"} {
			s, end = w.stream(foreign)
			list, length, _ = s.take(t)
			require.True(t, list[0].All)
			require.Len(t, list[0].Rows, n)
			require.Less(t, length, n<<10)
			end()
		}
	})
}

// Time alone makes a problem worse, and the browser is told.
func TestEventsOfTime(t *testing.T) {
	virtual(t, func(w *world) {
		b := w.lead(w.open(), "e", "db1")
		w.start(Config{})
		s, end := w.stream("")
		require.NoError(t, b.Withdraw(w.Context()))
		pass(bound - time.Second)
		s.take(t)
		pass(3 * time.Second)
		list, _, version := s.take(t)
		require.Contains(t, string(list[len(list)-1].Page), "longer than the bound")
		end()
		w.age(forgetAfter)
		pass(listEvery)
		s, end = w.stream(version)
		defer end()
		list, _, _ = s.take(t)
		require.True(t, list[0].All)
		require.Empty(t, list[0].Rows, "it is forgotten")
	})
}

// More streams than the limit are refused. Close ends them all.
func TestStreamsAreLimited(t *testing.T) {
	virtual(t, func(w *world) {
		w.start(Config{Elections: []string{"e"}})
		for range mostStreams {
			w.stream("")
		}
		s, end := w.stream("")
		end()
		require.Equal(t, http.StatusServiceUnavailable, s.code)
		require.Equal(t, "5", s.header.Get("Retry-After"))
		r := httptest.NewRecorder()
		w.ServeHTTP(r, httptest.NewRequest(http.MethodHead, "http://localhost/events", nil))
		require.Equal(t, http.StatusServiceUnavailable, r.Code)
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
			w.ServeHTTP(&slow{sink: &sink{}}, httptest.NewRequest(http.MethodGet, "http://localhost/events", nil))
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
		go w.ServeHTTP(last, httptest.NewRequest(http.MethodGet, "http://localhost/events", nil))
		pass(time.Millisecond)
		require.NoError(t, w.Server.Close())
		require.True(t, last.ended.Load(), "Close waits for all streams")
	})
}

// A hundred browsers look, over real connections, while the leader changes. Close leaves nothing.
func TestHundredBrowsers(t *testing.T) {
	t.Parallel()
	service := memory.NewService()
	st, err := memory.Open(service, nil)
	require.NoError(t, err)
	defer st.Close()
	b, err := st.Cast(t.Context(), "e", "db1")
	require.NoError(t, err)
	require.NoError(t, b.Wait(t.Context()))
	_, err = b.Acknowledge(t.Context(), "db1")
	require.NoError(t, err)
	s, err := New(Config{Store: st, Address: "memory://", Bound: bound})
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(s)
	server.Config.ReadTimeout, server.Config.WriteTimeout = 2*time.Second, 2*time.Second // no stream ends by them
	server.Start()
	client := &http.Client{Transport: &http.Transport{}}
	told := make(chan bool, 100)
	var browsers sync.WaitGroup
	for range cap(told) { // one after the other: the time-outs count from the start of a connection
		answer, err := client.Get(server.URL + "/events")
		require.NoError(t, err)
		browsers.Go(func() {
			defer answer.Body.Close()
			lines, seen := bufio.NewScanner(answer.Body), false
			for !seen && lines.Scan() {
				seen = strings.Contains(lines.Text(), `"leader":"db2"`)
			}
			told <- seen
			for lines.Scan() {
			}
		})
	}
	require.NoError(t, b.Withdraw(t.Context()))
	time.Sleep(2500 * time.Millisecond) // longer than the time-outs of the server
	next, err := st.Cast(t.Context(), "e", "db2")
	require.NoError(t, err)
	require.NoError(t, next.Wait(t.Context()))
	_, err = next.Acknowledge(t.Context(), "db2")
	require.NoError(t, err)
	for range cap(told) {
		require.True(t, <-told, "the stream has ended")
	}
	require.NoError(t, s.Close())
	browsers.Wait()
	server.Close()
	client.CloseIdleConnections()
}
