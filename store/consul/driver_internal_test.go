package consul

import (
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
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
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pipes are the connections to a server in the same process, so that it runs in the virtual time of a bubble too.
type pipes struct {
	dialed chan net.Conn
	closed chan struct{} // closed by Close
	close  func()
}

// Dial connects.
func (p *pipes) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.dialed <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.dialed:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error { p.close(); return nil }

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

// virtual runs a test in virtual time, with a driver whose agent is a handler.
func virtual(t *testing.T, ttl time.Duration, handler http.HandlerFunc, test func(t *testing.T, d *driver)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan struct{})
		p := &pipes{dialed: make(chan net.Conn), closed: closed, close: sync.OnceFunc(func() { close(closed) })}
		srv := &http.Server{Handler: withoutDestroyed(handler)}
		var serving sync.WaitGroup
		serving.Go(func() { _ = srv.Serve(p) })
		d, err := newDriver(Config{Addresses: []string{"a"}, TTL: ttl, Dial: p.Dial})
		require.NoError(t, err)
		defer func() { // if the test has failed, too
			assert.NoError(t, d.Close())
			assert.NoError(t, srv.Close())
			serving.Wait()
		}()
		test(t, d)
	})
}

// withoutDestroyed lets a handler that answers with answerTo know which sessions have been destroyed.
func withoutDestroyed(handler http.HandlerFunc) http.HandlerFunc {
	var destroyed sync.Map
	return func(w http.ResponseWriter, r *http.Request) {
		switch at, id := path.Split(r.URL.Path); at {
		case "/v1/session/": // create
			destroyed.Clear()
		case "/v1/session/destroy/":
			destroyed.Store(id, true)
		case "/v1/session/info/":
			if _, is := destroyed.Load(id); is {
				answer := httptest.NewRecorder()
				if handler(answer, r); answer.Body.String() == answerTo(r) {
					w.Header().Set("X-Consul-Index", "1")
					_, _ = io.WriteString(w, "[]")
					return
				}
				maps.Copy(w.Header(), answer.Header())
				w.WriteHeader(answer.Code)
				_, _ = answer.Body.WriteTo(w)
				return
			}
		}
		handler(w, r)
	}
}

// No answer makes the process panic.
func TestNullInAList(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusConflict, http.StatusNotFound} {
		for _, text := range []string{
			"", "null", "[null]", "[[null]]", "{}", `{"Results":[null]}`, `{"Results":[{"KV":null}]}`, `{"Errors":[null]}`, "garbage",
		} {
			t.Run(http.StatusText(status)+" "+text, func(t *testing.T) {
				virtual(t, leastSessionTTL, func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Query().Has("index") { // of a watch, which would ask on and on
						<-r.Context().Done()
						return
					}
					w.Header().Set("X-Consul-Index", "7")
					w.WriteHeader(status)
					_, _ = w.Write([]byte(text))
				}, func(t *testing.T, d *driver) {
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
			})
		}
	}
}

// A redirection is an odd answer, and is not followed.
func TestRedirections(t *testing.T) {
	var asked atomic.Int64
	virtual(t, leastSessionTTL, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.Redirect(w, r, r.URL.String(), http.StatusTemporaryRedirect)
	}, func(t *testing.T, d *driver) {
		_, err := d.client.Get(t.Context(), "key")
		require.ErrorIs(t, err, agent.ErrOdd)
		require.EqualValues(t, 1, asked.Load())
	})
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

// What is known of a ballot behind another one is dropped with either of them, and is not kept for a ballot behind one
// of its own session.
func TestBehindIsForgotten(t *testing.T) {
	const ownID, otherID = "00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b"
	l := layout{"prefix"}
	d := &driver{layout: l, present: &session{id: ownID}, behind: map[string]behind{}}
	own, other := l.ballot("x", ownID, engine.Nonce{Name: "n"}), l.ballot("x", otherID, engine.Nonce{Name: "n"})
	st := &standing{}
	d.place(own, st, api.KVPairs{{Key: other}})
	require.Equal(t, map[string]behind{other: {own, false}}, d.behind)
	another := l.ballot("x", otherID, engine.Nonce{Name: "m"})
	d.place(own, st, api.KVPairs{{Key: another}})
	require.Equal(t, map[string]behind{another: {own, false}}, d.behind)
	d.place(other, &standing{}, api.KVPairs{{Key: own}})
	require.Len(t, d.behind, 1)
}

// While there is a session and nothing is watched, Confirm asks for a key that a candidate may read. Without a session,
// Confirm asks for nothing.
func TestConfirmWithoutWatches(t *testing.T) {
	var reads, others atomic.Int64
	virtual(t, leastSessionTTL, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/v1/kv/leadership/"):
			reads.Add(1)
		case strings.HasPrefix(r.URL.Path, "/v1/kv/"):
			others.Add(1)
		}
		w.Header().Set("X-Consul-Index", "7")
		_, _ = w.Write([]byte(answerTo(r)))
	}, func(t *testing.T, d *driver) {
		asks := func(session bool) {
			t.Helper()
			before := reads.Load()
			err := d.Confirm(t.Context())
			require.Equal(t, session, reads.Load() == before+1)
			if !session {
				require.ErrorIs(t, err, errIdle)
			}
		}
		asks(false)
		s, _, err := d.Open(t.Context())
		require.NoError(t, err)
		asks(true)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.Error(t, s.Keep(ended, func(engine.Proof) {}))
		require.NoError(t, s.End(t.Context(), nil))
		asks(false)
		require.Zero(t, others.Load())
	})
}

// Consul leaves what the token may not read out of a list, and says so if there is a token. That is a denial: no session has
// ended, and no ballot has gone.
func TestFilteredListIsADenial(t *testing.T) {
	virtual(t, leastSessionTTL, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Consul-Index", "7")
		w.Header().Set("X-Consul-LastContact", "0") // without it the library reads no further
		w.Header().Set("X-Consul-Results-Filtered-By-ACLs", "true")
		_, _ = w.Write([]byte("[]"))
	}, func(t *testing.T, d *driver) {
		require.ErrorIs(t, d.prove(t.Context(), "id"), store.ErrDenied)
		_, err := d.First(t.Context(), "election")
		require.ErrorIs(t, err, store.ErrDenied)
		_, err = d.Ballots(t.Context(), "election")
		require.ErrorIs(t, err, store.ErrDenied)
		_, err = d.Elections(t.Context())
		require.ErrorIs(t, err, store.ErrDenied)
	})
}

// The condition names the namespace and the partition of the store, which the program's client might not have.
func TestConditionNamesTheNamespace(t *testing.T) {
	s := &session{driver: &driver{config: Config{Namespace: "n", Partition: "p"}}, id: "s"}
	require.Equal(t, &api.KVTxnOp{
		Verb: api.KVCheckSession, Key: "k", Session: "s", Namespace: "n", Partition: "p",
	}, s.Condition(engine.Entry{Key: "k"}))
}
