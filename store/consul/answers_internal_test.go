package consul

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul/internal/agent"
	"github.com/go-leadership/leadership/store/consul/internal/kvwatch"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

// driverOf returns a driver whose agent is a handler.
func driverOf(t *testing.T, ttl time.Duration, handler http.HandlerFunc) *driver {
	t.Helper()
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	d, err := newDriver(Config{Addresses: []string{srv.Listener.Addr().String()}, TTL: ttl})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// No answer makes the process panic.
func TestNullInAList(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusConflict, http.StatusNotFound} {
		for _, text := range []string{
			"", "null", "[null]", "[[null]]", "{}", `{"Results":[null]}`, `{"Results":[{"KV":null}]}`, `{"Errors":[null]}`, "garbage",
		} {
			t.Run(http.StatusText(status)+" "+text, func(t *testing.T) {
				d := driverOf(t, leastSessionTTL, func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Query().Has("index") { // of a watch, which would ask on and on
						<-r.Context().Done()
						return
					}
					w.Header().Set("X-Consul-Index", "7")
					w.WriteHeader(status)
					_, _ = w.Write([]byte(text))
				})
				ctx := t.Context()
				s := &session{driver: d, id: "id"}
				_, _ = d.client.Commit(ctx, &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: "key"})
				_, _ = d.client.List(ctx, "dir/")
				_, _ = d.First(ctx, "election")
				_, _ = d.client.Get(ctx, "key")
				_ = d.RequestResignation(ctx, "election", 1)
				_, _ = d.Ballots(ctx, "election")
				_, _ = s.Enter(ctx, "election", engine.Nonce{Name: "n"}, "own")
				_ = s.Void(ctx, "election", engine.Nonce{Name: "n"})
				_ = d.clearAway(ctx, s)
				_ = d.prove(ctx, s.id)
				_ = d.renew(ctx, s.id)
				_ = d.pass(ctx, "check")
				_ = d.client.Ready(ctx)
				_, _ = d.watches.Watch(ctx, "dir/key", kvwatch.Options{}, func(kvwatch.News) {})
				_, _ = d.watches.Confirm(ctx)
			})
		}
	}
}

// A redirection is an odd answer, and is not followed.
func TestRedirections(t *testing.T) {
	var asked atomic.Int64
	d := driverOf(t, leastSessionTTL, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.Redirect(w, r, r.URL.String(), http.StatusTemporaryRedirect)
	})
	_, err := d.client.Get(t.Context(), "key")
	require.True(t, agent.IsOdd(err), "%v", err)
	require.EqualValues(t, 1, asked.Load())
}

// A denial by the agent itself, which registers the check, might be one that it remembers. It is told at once as a denial,
// and is not final.
func TestAgentDeniesByItself(t *testing.T) {
	d := driverOf(t, leastTTL, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/service/register") {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte("Permission denied: token lacks permission 'service:write' on \"leadership\""))
		}
		_, _ = w.Write([]byte(answerTo(r)))
	})
	_, _, err := d.Open(t.Context())
	require.ErrorIs(t, err, store.ErrDenied)
	require.ErrorIs(t, err, store.ErrUnavailable)
}

// net/http goes on with the dials of requests that were given up. They end too.
func TestDialsThatHangAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dialing, dialed atomic.Int64
		d, err := newDriver(Config{
			Addresses: []string{"a"}, TTL: leastSessionTTL, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
				dialed.Add(1)
				dialing.Add(1)
				defer dialing.Add(-1)
				<-ctx.Done()
				return nil, ctx.Err()
			},
		})
		require.NoError(t, err)
		for range 60 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, _, err := d.client.Session().List(d.client.ReadOptions(ctx))
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		require.NotZero(t, dialed.Load())
		require.LessOrEqual(t, dialing.Load(), int64(20), "each ends after a TTL")
		time.Sleep(leastSessionTTL)
		require.NoError(t, d.Close())
		synctest.Wait()
		require.Zero(t, dialing.Load())
	})
}

// The number of the connection changes when a confirmation has failed, and when the service's index has gone back.
func TestConnectionChanges(t *testing.T) {
	const watch, confirmation = "index", "confirmation"
	for name, fails := range map[string]string{"the index goes back": watch, "a confirmation fails": confirmation} {
		t.Run(name, func(t *testing.T) {
			var queries atomic.Int64
			var failed atomic.Bool
			d := driverOf(t, leastSessionTTL, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Consul-Index", "7")
				switch query := r.URL.Query(); {
				case query.Has(watch) && fails == watch && queries.Add(1) < 3:
					w.Header().Set("X-Consul-Index", []string{"", "7", "6"}[queries.Load()])
				case query.Has(watch):
					<-r.Context().Done()
					return
				case r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/v1/session/info/") && fails == confirmation && failed.CompareAndSwap(false, true):
					w.WriteHeader(http.StatusInternalServerError)
				}
				_, _ = w.Write([]byte(answerTo(r)))
			})
			s, _, err := d.Open(t.Context())
			require.NoError(t, err)
			own := s.(*session)
			ctx, cancel := context.WithCancel(t.Context())
			renewed := make(chan uint64, 100) // the numbers
			var keeping sync.WaitGroup
			keeping.Go(func() { _ = s.Keep(ctx, func(engine.Proof) { renewed <- own.connection.Load() }) })
			_, err = d.WatchLeader(ctx, "election", func(engine.News) {})
			require.NoError(t, err)
			limit := time.After(agent.FirstWait + agent.RequestLimit) // then the query is given up, which changes the number too
			for n := uint64(0); n == 0; {
				select {
				case n = <-renewed:
				case <-limit:
					require.Fail(t, "the number is the same")
				}
			}
			require.EqualValues(t, 1, own.connection.Load())
			cancel()
			keeping.Wait()
		})
	}
}
