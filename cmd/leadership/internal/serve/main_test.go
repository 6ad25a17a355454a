package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ttl   = 10 * time.Second
	bound = 11 * time.Second
)

// world is a server in virtual time, and what it serves.
type world struct {
	*testing.T
	service *memory.Service
	ttl     time.Duration
	store   *counted // of the server
	*Server
	log strings.Builder
}

// counted is a store that counts what is asked for.
type counted struct {
	*memory.Store
	lists, queues atomic.Int64
	denied        atomic.Bool // reads of queues are
	during        func()      // if not nil: runs before a read of a queue returns
	blind         atomic.Bool // reads of leaders are denied
}

func (c *counted) Observe(ctx context.Context, election string, prev *store.Known) (store.Known, error) {
	if c.blind.Load() {
		return store.Known{}, fmt.Errorf("ask for the leader: %w", store.ErrDenied)
	}
	return c.Store.Observe(ctx, election, prev)
}

func (c *counted) Elections(ctx context.Context) ([]string, error) {
	c.lists.Add(1)
	return c.Store.Elections(ctx)
}

func (c *counted) Ballots(ctx context.Context, election string) ([]store.Standing, error) {
	c.queues.Add(1)
	if c.denied.Load() {
		return nil, fmt.Errorf("list the ballots: %w", store.ErrDenied)
	}
	list, err := c.Store.Ballots(ctx, election)
	if c.during != nil {
		c.during()
	}
	return list, err
}

func virtual(t *testing.T, test func(w *world)) {
	t.Helper()
	virtualWith(t, ttl, test)
}

// virtualWith is virtual with another TTL: with many elections, renewals of 10 s cost most of a test's time.
func virtualWith(t *testing.T, ttl time.Duration, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, service: memory.NewService(), ttl: ttl}
		w.store = &counted{Store: w.open()}
		test(w)
	})
}

// open opens a store that the end of the test closes.
func (w *world) open() *memory.Store {
	st, err := memory.Open(w.service, &memory.Config{TTL: w.ttl})
	require.NoError(w, err)
	w.Cleanup(func() { st.Faults().Heal(); require.NoError(w, st.Close()) })
	return st
}

// start starts the server, which the end of the test closes.
func (w *world) start(c Config) {
	c.Store, c.Address, c.Bound, c.Logger = w.store, "memory://test/", bound, slog.New(slog.NewTextHandler(&w.log, nil))
	s, err := New(c)
	require.NoError(w, err)
	w.Cleanup(func() { require.NoError(w, s.Close()) })
	w.Server = s
	pass(time.Millisecond)
}

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// lead casts a ballot, and acknowledges if it is first.
func (w *world) lead(st store.Store, election, value string) store.Ballot {
	b, err := st.Cast(w.Context(), election, value)
	require.NoError(w, err)
	ctx, cancel := context.WithTimeout(w.Context(), time.Millisecond)
	defer cancel()
	if b.Wait(ctx) == nil {
		_, err = b.Acknowledge(w.Context(), value)
		require.NoError(w, err)
	}
	synctest.Wait()
	return b
}

func (w *world) get(path string) *httptest.ResponseRecorder {
	return w.ask(http.MethodGet, path, "localhost:8009")
}

func (w *world) ask(method, path, host string) *httptest.ResponseRecorder {
	r, request := httptest.NewRecorder(), httptest.NewRequest(method, path, nil)
	request.Host = host
	w.ServeHTTP(r, request)
	return r
}

// election returns an election as /elections has it.
func (w *world) election(name string) (found electionJSON) {
	w.Helper()
	var all []electionJSON
	require.NoError(w, json.Unmarshal(w.get("/elections").Body.Bytes(), &all))
	for _, e := range all {
		if e.Election == name {
			return e
		}
	}
	w.Errorf("%s is not served", name)
	return found
}

// look opens a stream of events, which it drops.
func (w *world) look() (end func()) {
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.ServeHTTP(&sink{}, httptest.NewRequest(http.MethodGet, "http://localhost/events", nil).WithContext(ctx))
	}()
	synctest.Wait()
	return func() { cancel(); <-done }
}

// followed returns an election of the server. The caller holds mu.
func (w *world) followed(name string) *election {
	w.Helper()
	require.Contains(w, w.elections, name)
	return w.elections[name]
}

// age makes all elections as if they had been listed earlier by d.
func (w *world) age(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.elections {
		e.listed = e.listed.Add(-d)
	}
}
