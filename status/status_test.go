package status_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/status"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	ttl      = 12 * time.Second
	valid    = 8 * time.Second // of a renewal: TTL less a grace of a third
	election = "database/primary"
)

// world is a candidate in virtual time, and the handler that shows it.
type world struct {
	*testing.T
	service *memory.Service
	store   *memory.Store
	*status.Handler
	c                   *leadership.Candidate
	acknowledge, finish chan struct{}
	unfit               atomic.Bool
}

func virtual(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, service: memory.NewService(), Handler: status.New(status.Config{})}
		w.acknowledge, w.finish = make(chan struct{}), make(chan struct{})
		w.store = w.open()
		var err error
		w.c, err = leadership.NewCandidate(w.store, election, "dbhost2:4567", &leadership.CandidateOptions{
			Events: w.Event, Fitness: &leadership.Fitness{Check: func(context.Context, *leadership.Term) error {
				if w.unfit.Load() {
					return errors.New("the disk is full")
				}
				return nil
			}},
		})
		require.NoError(t, err)
		w.Candidate(w.c)
		defer func() { // also if the test has failed
			w.store.Faults().Heal()
			w.c.Stop()
			if !isClosed(w.finish) {
				close(w.finish)
			}
			<-w.c.Done()
		}()
		test(w)
	})
}

func (w *world) open() *memory.Store {
	st, err := memory.Open(w.service, &memory.Config{TTL: ttl, Renewed: w.Renewed("memory")})
	require.NoError(w, err)
	w.Cleanup(func() { _ = st.Close() })
	return st
}

// run runs the candidate: it acknowledges when acknowledge is closed, and its work stops when finish is.
func (w *world) run() {
	w.Helper()
	go func() {
		_ = w.c.Run(context.Background(), func(ctx context.Context, term *leadership.Term) error {
			select {
			case <-w.acknowledge:
				_ = term.Acknowledge(ctx)
			case <-ctx.Done():
			}
			<-ctx.Done()
			<-w.finish
			return nil
		})
	}()
	synctest.Wait()
}

// leads makes another process lead.
func (w *world) leads() *leadership.Term {
	w.Helper()
	c, err := leadership.NewCandidate(w.open(), election, "other", nil)
	require.NoError(w, err)
	term, err := c.Campaign(context.Background())
	require.NoError(w, err)
	require.NoError(w, term.Acknowledge(context.Background()))
	w.Cleanup(func() { _ = term.Withdraw(context.Background()) })
	return term
}

func (w *world) get(path string) (int, string) {
	w.Helper()
	answer := httptest.NewRecorder()
	w.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
	return answer.Code, answer.Body.String()
}

func pass(d time.Duration) { time.Sleep(d); synctest.Wait() }

// TestStatesAndPaths is the table of docs/operations.md: what each path answers in each state.
func TestStatesAndPaths(t *testing.T) {
	page, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	for _, row := range []struct {
		state                                    string
		reach                                    func(w *world)
		leader, follower, readyz, livez, healthz int
	}{
		{"idle", func(*world) {}, 503, 503, 503, 200, 503},
		{"stopped", func(w *world) { close(w.finish); w.run(); w.c.Stop(); <-w.c.Done() }, 503, 503, 503, 200, 503},
		{"unfit", func(w *world) { w.unfit.Store(true); w.run() }, 503, 503, 503, 200, 503},
		{"unfit after a term", func(w *world) {
			close(w.acknowledge)
			close(w.finish)
			w.run()
			w.unfit.Store(true)
			pass(time.Minute)
		}, 503, 503, 503, 200, 503},
		{"casting, the store has never worked", func(w *world) { w.store.Faults().Cut(); w.run() }, 503, 503, 503, 200, 503},
		{"casting in an outage", (*world).outage, 503, 503, 200, 200, 200},
		{"casting in an outage for more than a TTL", func(w *world) { w.outage(); pass(ttl + time.Second) }, 503, 503, 200, 200, 503},
		{"waiting, a renewal is overdue", func(w *world) {
			w.leads()
			w.run()
			w.store.Faults().Cut()
			pass(valid)
		}, 503, 200, 200, 200, 503},
		{"waiting", func(w *world) { w.leads(); w.run(); pass(10 * ttl) }, 503, 200, 200, 200, 200},
		{"taking over", func(w *world) { w.run() }, 503, 503, 200, 200, 200},
		{"taking over for more than a TTL", func(w *world) { w.run(); pass(ttl + time.Second) }, 503, 503, 200, 200, 503},
		{"leading", func(w *world) { close(w.acknowledge); w.run(); pass(100 * ttl) }, 200, 503, 200, 200, 200},
		{"leading, a renewal is overdue", func(w *world) {
			close(w.acknowledge)
			w.run()
			w.store.Faults().Cut()
			for !w.c.Status().Overdue {
				pass(10 * time.Millisecond)
			}
		}, 200, 503, 200, 200, 503},
		{"winding down", func(w *world) { close(w.acknowledge); w.run(); w.c.Resign() }, 503, 503, 200, 200, 200},
		{"winding down for more than a TTL", func(w *world) {
			close(w.acknowledge)
			w.run()
			w.c.Resign()
			pass(ttl + time.Second)
		}, 503, 503, 200, 200, 503},
		{"winding down for more than 10 TTL", func(w *world) {
			close(w.acknowledge)
			w.run()
			w.c.Resign()
			pass(10*ttl + time.Second)
		}, 503, 503, 200, 503, 503},
	} {
		t.Run(row.state, func(t *testing.T) {
			require.Contains(t, string(page), fmt.Sprintf("\n| %s | %d | %d | %d | %d | %d |\n",
				row.state, row.leader, row.follower, row.readyz, row.livez, row.healthz))
			virtual(t, func(w *world) {
				row.reach(w)
				synctest.Wait()
				for path, want := range map[string]int{
					"/leader": row.leader, "/leader/" + election: row.leader,
					"/follower": row.follower, "/follower/" + election: row.follower,
					"/readyz": row.readyz, "/livez": row.livez, "/healthz": row.healthz, "/status": 200, "/metrics": 200,
				} {
					code, body := w.get(path)
					require.Equal(w, want, code, "%s: %s", path, body)
				}
			})
		})
	}
}

// outage makes the store silent while the candidate leads, and waits until its work has stopped.
func (w *world) outage() {
	close(w.acknowledge)
	close(w.finish)
	w.run()
	w.store.Faults().Cut()
	for w.c.Status().State != leadership.Casting {
		require.NotEqual(w, leadership.Idle, w.c.Status().State)
		pass(100 * time.Millisecond)
	}
}

func isClosed(ch chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// TestMargin: /leader fails while less of the lease is left than the margin, so that a balancer sends nothing after it.
func TestMargin(t *testing.T) {
	virtual(t, func(w *world) {
		close(w.acknowledge)
		close(w.finish)
		w.run()
		w.store.Faults().Cut()
		code := func(path string) int { c, _ := w.get(path); return c }
		left := w.c.Status().Remaining
		pass(left - 2*time.Second)
		require.Equal(w, 200, code("/leader?margin=2s"))
		pass(time.Millisecond)
		require.Equal(w, 503, code("/leader?margin=2s"))
		require.Equal(w, 200, code("/leader?margin=1s"))
		require.Equal(w, 200, code("/leader"))
		time.Sleep(2*time.Second - time.Millisecond) // virtual time: the lease is over
		require.Equal(w, 503, code("/leader"))
	})
}

// TestHealthyLeaderKeepsAnyMargin: with the longest margin that is taken, a healthy leader is never out, if a round trip to
// the store takes no more than a 24th of the TTL.
func TestHealthyLeaderKeepsAnyMargin(t *testing.T) {
	virtual(t, func(w *world) {
		close(w.acknowledge)
		close(w.finish)
		w.store.Faults().Delay(ttl / 48) // a round trip is twice that
		w.run()
		for w.c.Status().State != leadership.Leading {
			pass(time.Second)
		}
		for range 2000 {
			pass(20 * time.Millisecond)
			code, body := w.get("/leader?margin=3999ms")
			require.Equal(w, 200, code, body)
		}
	})
}

func TestRefusals(t *testing.T) {
	virtual(t, func(w *world) {
		for path, want := range map[string]int{
			"/leader?margin=4s": 400, "/leader?margin=3999ms": 503, "/leader?margin=-1s": 400, "/leader?margin=2": 400,
			"/leader?margin=": 503, "/leader/": 503, "/leader/unknown": 404, "/follower/unknown": 404,
			// A query that can't be read is no leader without a margin: a balancer would send after the lease.
			"/leader?margin=2s;": 400, "/leader?a=1;margin=2s": 400, "/leader?margin=2s%": 400, "/leader?margin=&margin=2s": 400,
			"/leader?margin=0s&margin=2s": 400, "/leader?Margin=2s": 400, "/leader?margins=2s": 400,
			"/": 404, "//leader": 404, "/leader//": 404, "/../leader": 404, "/readyz/x": 404, "/favicon.ico": 404, "/Leader": 404,
		} {
			code, body := w.get(path)
			require.Equal(w, want, code, "%s: %s", path, body)
			if want >= 400 && want != 503 {
				require.NotEmpty(w, strings.TrimSpace(body))
			}
		}
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, "PURGE"} {
			answer := httptest.NewRecorder()
			w.ServeHTTP(answer, httptest.NewRequest(method, "/leader", nil))
			require.Equal(w, http.StatusMethodNotAllowed, answer.Code, method)
			require.Equal(w, "GET, HEAD, OPTIONS", answer.Header().Get("Allow"))
		}
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
			answer := httptest.NewRecorder()
			w.ServeHTTP(answer, httptest.NewRequest(method, "/leader", nil))
			require.Equal(w, http.StatusServiceUnavailable, answer.Code, method)
			require.Equal(w, "no-store", answer.Header().Get("Cache-Control"))
			require.Equal(w, "idle", answer.Header().Get("Leadership-State"))
		}

		other, err := leadership.NewCandidate(w.store, "other", "x", nil)
		require.NoError(w, err)
		w.Candidate(other)
		code, body := w.get("/leader")
		require.Equal(w, 400, code)
		require.Contains(w, body, "database/primary, other")
		code, _ = w.get("/leader/other")
		require.Equal(w, 503, code)
		empty := status.New(status.Config{})
		for _, path := range []string{"/leader", "/follower", "/leader/" + election, "/readyz", "/healthz"} {
			answer := httptest.NewRecorder()
			empty.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
			require.Equal(w, 503, answer.Code, path)
		}
		answer := httptest.NewRecorder()
		empty.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/status", nil))
		require.Equal(w, "[]\n", answer.Body.String())
	})
}

// TestFollowerOnly: a process that only follows is ready once the store has answered, and healthy while it answers.
func TestFollowerOnly(t *testing.T) {
	virtual(t, func(w *world) {
		h := status.New(status.Config{})
		st := w.open()
		f, err := leadership.NewFollower(st, election, &leadership.FollowerOptions{Events: h.Event})
		require.NoError(w, err)
		h.Follower(f)
		codes := func(readyz, livez, healthz int) {
			w.Helper()
			for i, path := range []string{"/readyz", "/livez", "/healthz", "/leader", "/follower"} { // the last two start it
				answer := httptest.NewRecorder()
				h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
				require.Equal(w, []int{readyz, livez, healthz, 503, 503}[i], answer.Code, "%s: %s", path, answer.Body)
			}
		}
		st.Faults().Cut()
		codes(503, 200, 503) // the first request starts the follower
		st.Faults().Heal()
		pass(ttl)
		codes(200, 200, 200)
		st.Faults().Cut()
		pass(ttl + time.Second)
		codes(200, 200, 503)
		st.Faults().Heal()
		pass(ttl)
		codes(200, 200, 200)
		f.Stop()
		<-f.Done()
		codes(200, 200, 503)
	})
}

func TestReadyOfTheProgram(t *testing.T) {
	virtual(t, func(w *world) {
		var why error
		h := status.New(status.Config{Ready: func(ctx context.Context) error { require.NotNil(t, ctx); return why }})
		code := func(path string) (int, string) {
			answer := httptest.NewRecorder()
			h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
			return answer.Code, answer.Body.String()
		}
		for _, path := range []string{"/readyz", "/healthz"} {
			c, body := code(path)
			require.Equal(t, 503, c)
			require.Equal(t, "there is no candidate and no follower yet\n", body)
		}
		c, _ := code("/livez")
		require.Equal(t, 200, c)
		w.run()
		h.Candidate(w.c)
		c, _ = code("/readyz")
		require.Equal(t, 200, c)
		why = errors.New("caches are cold")
		c, body := code("/readyz")
		require.Equal(t, 503, c)
		require.Equal(t, "caches are cold\n", body)
	})
}

// TestJSON: tokens are text, since JavaScript rounds above 2^53; a value may be any bytes.
func TestJSON(t *testing.T) {
	virtual(t, func(w *world) {
		f, err := leadership.NewFollower(w.store, election, nil)
		require.NoError(w, err)
		defer func() { f.Stop(); <-f.Done() }()
		f.Start()
		w.Follower(f)
		close(w.acknowledge)
		close(w.finish)
		w.run()
		type answer struct {
			Election  string
			Candidate map[string]any
			Leader    map[string]any
		}
		var one answer
		_, body := w.get("/leader")
		require.NoError(w, json.Unmarshal([]byte(body), &one))
		require.Equal(w, election, one.Election)
		require.Equal(w, "dbhost2:4567", one.Candidate["value"])
		require.Equal(w, "leading", one.Candidate["state"])
		require.Equal(w, true, one.Candidate["acknowledged"])
		require.InDelta(w, valid.Seconds(), one.Candidate["remaining_seconds"], 4)
		require.IsType(w, "", one.Candidate["token"])
		require.Equal(w, "dbhost2:4567", one.Leader["value"])
		require.Equal(w, true, one.Leader["fresh"])
		require.IsType(w, "", one.Leader["revision"])

		bytes, err := leadership.NewCandidate(w.store, "bytes", "\xff", nil)
		require.NoError(w, err)
		w.Candidate(bytes)
		var all []answer
		_, body = w.get("/status")
		require.NoError(w, json.Unmarshal([]byte(body), &all))
		require.Len(w, all, 2)
		require.Equal(w, "bytes", all[0].Election)
		require.Equal(w, "/w==", all[0].Candidate["value_base64"])
		require.Nil(w, all[0].Leader)
		require.NotContains(w, all[0].Candidate, "token")
	})
}

// TestErrorsAreShown: the reason why there is no ballot.
func TestErrorsAreShown(t *testing.T) {
	virtual(t, func(w *world) {
		close(w.finish)
		w.store.Faults().Cut()
		w.run()
		pass(4 * ttl)
		for _, path := range []string{"/readyz", "/healthz", "/status"} {
			_, body := w.get(path)
			require.Contains(w, body, store.ErrUnavailable.Error(), path)
		}
	})
}
