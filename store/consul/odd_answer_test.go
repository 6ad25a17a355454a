package consul_test

import (
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/stretchr/testify/require"
)

type spring = func(*tap, http.ResponseWriter, *http.Request, []byte)

// instead answers without asking the agent; besides asks the agent, and then answers something else.
func instead(status int, text string) spring { return answer(status, text) }

func besides(status int, text string) spring {
	return func(tp *tap, w http.ResponseWriter, r *http.Request, body []byte) {
		tp.forward(httptest.NewRecorder(), r, body)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

// index gives the agent's answer with another index.
func index(index uint64) spring {
	return func(tp *tap, w http.ResponseWriter, r *http.Request, body []byte) {
		if r.URL.Query().Has("index") { // at once, as a proxy does that answers from a cache
			q := r.URL.Query()
			q.Del("index")
			r = r.Clone(r.Context())
			r.URL.RawQuery = q.Encode()
		}
		rec := httptest.NewRecorder()
		tp.forward(rec, r, body)
		maps.Copy(w.Header(), rec.Header())
		w.Header().Set("X-Consul-Index", strconv.FormatUint(index, 10))
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes())
	}
}

const page = "<html><body>403 Forbidden: Permission denied by the gateway</body></html>"

// oddAnswers are answers that a proxy between a store and its agent might give. With two there is none.
var oddAnswers = map[string]spring{
	"lost reply": loseReply, "lost request": loseRequest,
	"404": instead(404, "404 page not found"), "404 and done": besides(404, ""),
	"403 page": instead(403, page), "403 page and done": besides(403, page),
	"403 of an outage": instead(403, "Permission denied: token with AccessorID 'primary-dc-down' lacks permission 'key:write' on \"x\""),
	"500":              instead(500, "internal error"), "502 and done": besides(502, page),
	"garbage": instead(200, "garbage"), "garbage and done": besides(200, "garbage"),
	"object": instead(200, "{}"), "object and done": besides(200, "{}"),
	"nothing": instead(200, ""), "null": instead(200, "null"), "list": instead(200, "[]"), "409": instead(409, "{}"),
}

var oddIndexes = map[string]spring{"no index": index(0), "first index": index(1), "last index": index(math.MaxUint64)}

// One odd answer to any one request, or none, ends no term, starts no loop, and is not believed. One ballot stands after
// an odd answer to a cast.
func TestOddAnswers(t *testing.T) {
	t.Parallel()
	rarely := []string{"404", "404 and done", "403 page", "object", "nothing", "list"}
	rarely = append(rarely, slices.Collect(maps.Keys(oddIndexes))...)
	for name, c := range map[string]struct {
		parts   []string
		indexed bool
		some    []string                                                              // of the answers, if the request is sent rarely
		act     func(t *testing.T, st *consul.Store, b store.Ballot, election string) // makes the store send the request
	}{
		"pass the check":    {parts: []string{"PUT", "check/update"}},
		"renew the session": {parts: []string{"PUT", "session/renew"}, some: rarely},
		"prove the session": {parts: []string{"GET", "/v1/kv/", "_ballots/", "consistent"}, indexed: true},
		"look":              {parts: []string{"PUT", "/v1/txn", "check-index"}, some: rarely, act: readLeader},
		"watch the ballot":  {parts: []string{"GET", "/v1/kv/", "_ballots/", "index="}, indexed: true, some: rarely},
		"read the leader":   {parts: []string{"GET", "/v1/kv/", "consistent"}, indexed: true, act: readLeader},
		"list the ballots":  {parts: []string{"GET", "/v1/kv/", "recurse"}, indexed: true, act: listBallots},
		"cast":              {parts: []string{"PUT", "/v1/txn", "get-tree"}, act: castAnother},
		"withdraw":          {parts: []string{"PUT", "/v1/txn", `"delete"`}, act: castAnother},
		"acknowledge":       {parts: []string{"PUT", "/v1/txn", "check-session"}, act: acknowledgeAgain},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			meter, tp := stall.Watch(t), newTap(t)
			list := maps.Clone(oddAnswers)
			if c.indexed {
				maps.Copy(list, oddIndexes)
			}
			if c.some != nil {
				maps.DeleteFunc(list, func(odd string, _ spring) bool { return !slices.Contains(c.some, odd) })
			}
			var election string
			var st *consul.Store
			var b, waiter store.Ballot
			var span store.Span
			stand := func() {
				election, st = newElection(), open(t, consul.Config{Addresses: tp.addr(), TTL: checked})
				b = castFirst(t, st, election, "own")
				acknowledge(t, b, "own")
				var holds bool
				span, holds = b.Lease().Span()
				require.True(t, holds)
				waiter = cast(t, open(t, consul.Config{}), election, "waiter")
			}
			stand()
			for odds := slices.Sorted(maps.Keys(list)); len(odds) > 0; {
				odd, before, stalled, began := odds[0], tp.Count(""), meter.Stalled(), time.Now()
				caught := tp.catch(list[odd], c.parts...)
				if c.act != nil {
					c.act(t, st, b, election)
				}
				if slices.Contains(c.parts, "index=") { // ends the query that waits, so that the next one is sent
					tp.CloseClientConnections()
				}
				receive(t, caught.caught, "the request before %q", odd)
				if c.act == nil {
					renewedOrOver(t, b)
				}
				if !b.Lease().Holds(span) && meter.Stalled()-stalled > checked/12 { // then this says nothing
					t.Logf("again, since the lease is over after %q: %v", odd, meter)
					stand()
					continue
				}
				odds = odds[1:]
				require.True(t, b.Lease().Holds(span), "the lease after %q", odd)
				require.NoError(t, b.Err(), odd)
				rate := float64(tp.Count("")-before) / (time.Since(began).Seconds() + 1)
				require.Less(t, rate, 60.0, "requests per second after %q", odd)
			}
			waiting(t, waiter)
			require.Equal(t, []string{"own", "waiter"}, values(t, st, election))
			require.NoError(t, b.Withdraw(soon(t)))
			require.NoError(t, waiter.Wait(soon(t)))
		})
	}
}

func readLeader(t *testing.T, st *consul.Store, _ store.Ballot, election string) {
	leader, err := storetest.Leader(soon(t), st, election, nil)
	require.NoError(t, err)
	require.Equal(t, "own", leader.Value)
}

func listBallots(t *testing.T, st *consul.Store, _ store.Ballot, election string) {
	require.Equal(t, []string{"own", "waiter"}, values(t, st, election))
}

func castAnother(t *testing.T, st *consul.Store, _ store.Ballot, _ string) {
	election := newElection()
	b := castFirst(t, st, election, "another")
	require.Equal(t, []string{"another"}, values(t, st, election))
	require.NoError(t, b.Withdraw(soon(t)))
	require.Empty(t, values(t, st, election))
}

func acknowledgeAgain(t *testing.T, st *consul.Store, b store.Ballot, election string) {
	for {
		leader, err := b.Acknowledge(soon(t), "own")
		if err == nil {
			seen, err := storetest.Leader(soon(t), st, election, nil)
			require.NoError(t, err)
			require.Equal(t, leader, seen)
			return
		}
		require.True(t, adapter.Uncertain(err), "%v", err)
	}
}

// One odd answer to a request that opens a session, or none, delays the session, and nothing more.
func TestOddAnswersAtTheStart(t *testing.T) {
	t.Parallel()
	for name, part := range map[string]string{"register": "service/register", "create": "session/create"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for odd, spring := range oddAnswers {
				if part == "service/register" && (odd == "object" || odd == "object and done") {
					continue // the agent's own answer says no more
				}
				tp := newTap(t)
				st := open(t, consul.Config{Addresses: tp.addr(), TTL: checked})
				caught := tp.catch(spring, "PUT", part)
				election := newElection()
				b := castFirst(t, st, election, "own")
				receive(t, caught.caught, "the request before %q", odd)
				require.Equal(t, []string{"own"}, values(t, st, election))
				require.NoError(t, b.Withdraw(soon(t)))
				require.Empty(t, values(t, st, election))
				require.NoError(t, st.Close())
			}
		})
	}
}
