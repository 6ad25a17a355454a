package consul

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store/consul/internal/agent"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The lease of a session goes on at the round trips that docs/backends.md promises: TTL/8, and TTL/24 if one of two agents
// falls silent.
func TestSteadyAnswers(t *testing.T) {
	for _, l := range []*slowLink{
		{agents: 1, ttl: leastTTL, share: 8, fromStart: true},
		{agents: 1, ttl: leastTTL, share: 8},
		{agents: 1, ttl: leastSessionTTL, share: 8, fromStart: true},
		{agents: 1, ttl: leastSessionTTL, share: 8},
		{agents: 1, ttl: mostTTL, share: 8},
		{agents: 2, ttl: leastSessionTTL, share: 8, fromStart: true},
		{agents: 2, ttl: leastSessionTTL, share: 8},
		{agents: 2, ttl: leastSessionTTL, share: 24, fromStart: true, silent: true},
		// The confirmation reads a ballot.
		{agents: 1, ttl: leastTTL, share: 8, stands: true},
		{agents: 1, ttl: leastSessionTTL, share: 8, fromStart: true, stands: true},
		{agents: 2, ttl: leastSessionTTL, share: 24, silent: true, stands: true},
		{agents: 1, ttl: leastSessionTTL, share: 24, mute: "_ballots", once: true, stands: true},
		// One request without an answer costs no lease.
		{agents: 1, ttl: leastTTL, share: 24, mute: "check/update", once: true},
		{agents: 1, ttl: leastTTL, share: 24, mute: "session/info", once: true},
		{agents: 1, ttl: leastSessionTTL, share: 24, mute: "session/info", once: true},
		{agents: 1, ttl: leastSessionTTL, share: 24, mute: "session/renew", once: true},
	} {
		t.Run(l.name(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { require.NoError(t, l.keep(t)) })
		})
	}
}

// The requests of a confirmation are sent at the same time. It counts only if each of them has been answered: a lease
// never counts from a request that the agent or the servers might not have seen. A TTL after the last confirmation that
// counted, the session is given up.
func TestConfirmationNeedsEachAnswer(t *testing.T) {
	for _, l := range []*slowLink{
		{agents: 1, ttl: leastTTL, share: 24, mute: "check/update"},
		{agents: 1, ttl: leastTTL, share: 24, mute: "session/info"},
		{agents: 1, ttl: leastSessionTTL, share: 24, mute: "session/info"},
		{agents: 1, ttl: leastSessionTTL, share: 24, mute: "session/renew"},
	} {
		t.Run(l.name(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				require.ErrorContains(t, l.keep(t), fmt.Sprintf("not confirmed for longer than the ttl %v", l.ttl))
				require.NotZero(t, l.muted)
				require.False(t, l.counted.After(l.silence), "a confirmation has counted without an answer")
				require.Equal(t, l.ttl, l.gaveUp.Sub(l.counted))
				require.Less(t, l.muted, 10, "requests without an answer in that time")
			})
		})
	}
}

// slowLink is a link to agents that answer what opens, confirms and ends a session.
type slowLink struct {
	agents    int
	ttl       time.Duration
	fromStart bool          // it is slow from the start; otherwise after a TTL
	silent    bool          // the first agent is, after a TTL
	share     time.Duration // of the TTL that a round trip takes: an eighth if it is 8
	mute      string        // requests with this in their path have no answer after a TTL
	once      bool          // only one of them
	stands    bool          // a ballot does

	mu      sync.Mutex
	muted   int       // guarded by mu: how many had none
	silence time.Time // guarded by mu: when the first of them came
	counted time.Time // when the last confirmation that counted was sent
	gaveUp  time.Time // when keeping the session ended
}

// name describes the link.
func (l *slowLink) name() string {
	parts := []string{fmt.Sprintf("%d agents", l.agents), l.ttl.String(), fmt.Sprintf("a round trip of TTL over %d", l.share)}
	for part, is := range map[string]bool{"from the start": l.fromStart, "silent": l.silent, "mute " + l.mute: l.mute != "", "once": l.once, "a ballot": l.stands} {
		if is {
			parts = append(parts, part)
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// mutes reports whether a request has no answer.
func (l *slowLink) mutes(req *http.Request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mute == "" || !strings.Contains(req.URL.Path, l.mute) || l.once && l.muted > 0 {
		return false
	}
	if l.muted++; l.muted == 1 {
		l.silence = time.Now()
	}
	return true
}

// keep keeps a session for some TTLs, and returns why its lease did not go on.
func (l *slowLink) keep(t *testing.T) error {
	began := time.Now()
	var serving sync.WaitGroup
	d, err := newDriver(Config{
		Addresses: []string{"a", "b"}[:l.agents], TTL: l.ttl,
		Dial: func(_ context.Context, _, address string) (net.Conn, error) {
			late := func() bool { return time.Since(began) > l.ttl*9/8 }
			slow := func(d time.Duration) {
				if l.fromStart || late() {
					time.Sleep(d) // a timer's channel makes the race detector crash, if two of them fire at once in a bubble
				}
			}
			slow(l.ttl / l.share)
			conn, agent := net.Pipe()
			serving.Go(func() {
				defer agent.Close()
				for r := bufio.NewReader(agent); ; {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					silent := l.silent && late() && strings.HasPrefix(address, "a:") || late() && l.mutes(req)
					if silent || req.URL.Query().Has("index") { // nothing changes
						continue
					}
					slow(l.ttl / l.share)
					text := answerAll(req)
					_, _ = fmt.Fprintf(agent, "HTTP/1.1 200 OK\r\nX-Consul-Index: 1\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
				}
			})
			return conn, nil
		},
	})
	require.NoError(t, err)
	defer serving.Wait()
	defer func() {
		require.NoError(t, d.Close())
		time.Sleep(l.ttl) // until dials under way have ended
	}()
	s, p, err := d.Open(t.Context())
	if err != nil {
		return err
	}
	if l.stands {
		_, err := d.WatchEntry(t.Context(), "leadership/e/_ballots/"+sessionID+"-1", func(engine.News) {})
		require.NoError(t, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*l.ttl)
	defer cancel()
	end := time.Now().Add(2 * l.ttl) // of the lease: it may begin with the first renewal
	var broken error
	err = s.Keep(ctx, func(n engine.Proof) {
		if now := time.Now(); now.After(end) {
			broken = fmt.Errorf("the lease was over for %v", now.Sub(end))
		}
		if n.Sent.Time().After(p.Sent.Time()) {
			p = n
			end = p.Sent.Time().Add(p.Valid)
			l.counted = n.Sent.Time()
		}
	})
	l.gaveUp = time.Now()
	_ = s.End(t.Context(), nil)
	if ctx.Err() != nil {
		return broken
	}
	return fmt.Errorf("it was given up: %w", err)
}

const sessionID = "01234567-89ab-cdef-0123-456789abcdef"

// answerAll returns what an agent answers that has a ballot for each key.
func answerAll(req *http.Request) string {
	if key, ofKey := strings.CutPrefix(req.URL.Path, "/v1/kv/"); ofKey {
		created := len(key)
		return fmt.Sprintf(`[{"Key":%q,"Session":%q,"CreateIndex":%d,"ModifyIndex":%d}]`, key, sessionID, created, created)
	}
	return strings.ReplaceAll(answerTo(req), `"id"`, `"`+sessionID+`"`)
}

// answerTo returns what an agent answers.
func answerTo(req *http.Request) string {
	switch path := req.URL.Path; {
	case strings.HasPrefix(path, "/v1/agent/"):
		return ""
	case strings.HasSuffix(path, "/create"):
		return `{"ID":"id"}`
	case strings.Contains(path, "/destroy/"):
		return "true"
	case path == "/v1/status/leader":
		return `"a:8300"`
	}
	return `[{"ID":"id"}]`
}

// The number of the connection changes when a confirmation has failed, and when the service's index has gone back.
func TestConnectionChanges(t *testing.T) {
	const watch, confirmation = "index", "confirmation"
	for name, fails := range map[string]string{"the index goes back": watch, "a confirmation fails": confirmation} {
		t.Run(name, func(t *testing.T) {
			var queries atomic.Int64
			var failed atomic.Bool
			virtual(t, leastSessionTTL, func(w http.ResponseWriter, r *http.Request) {
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
			}, func(t *testing.T, d *driver) {
				s, _, err := d.Open(t.Context())
				require.NoError(t, err)
				own := s.(*session)
				began := time.Now()
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
				if fails == watch {
					require.Less(t, time.Since(began), leastSessionTTL/4, "the session is confirmed at once")
				}
				cancel()
				keeping.Wait()
			})
		})
	}
}

// The service goes back to a state that has the session and lacks its newest ballot: the session is renewed, and the first
// confirmation proves nothing. It tells the watch of that ballot, which has heard nothing. Later ones prove that the older
// ballot stands.
func TestConfirmationNeedsTheNewestBallot(t *testing.T) {
	older, newer := "leadership/a/_ballots/"+sessionID+"-1", "leadership/bb/_ballots/"+sessionID+"-2"
	var restored, infos atomic.Int64
	virtual(t, leastSessionTTL, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Consul-Index", "9")
		switch {
		case r.URL.Query().Has("index"):
			<-r.Context().Done()
		case strings.HasSuffix(r.URL.Path, newer) && restored.Load() > 0:
			restored.Add(1)
			w.WriteHeader(http.StatusNotFound)
		default:
			if strings.Contains(r.URL.Path, "session/info") {
				infos.Add(1)
			}
			_, _ = io.WriteString(w, answerAll(r))
		}
	}, func(t *testing.T, d *driver) {
		opened, _, err := d.Open(t.Context())
		require.NoError(t, err)
		s := opened.(*session)
		told := map[string]engine.State{}
		for _, key := range []string{older, newer} {
			_, err := d.WatchEntry(t.Context(), key, func(n engine.News) { told[key] = *n.State })
			require.NoError(t, err)
		}
		_, err = s.confirm(t.Context())
		require.NoError(t, err)
		require.Zero(t, infos.Load(), "the ballot shows that the session stands")
		restored.Store(1)
		_, err = s.confirm(t.Context())
		require.ErrorContains(t, err, newer)
		require.EqualValues(t, 1, infos.Load(), "it asks whether the session has ended")
		require.EqualValues(t, len(older), told[older].Token)
		require.Zero(t, told[newer].Token)
		_, err = s.confirm(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 2, restored.Load(), "what has gone is read once")
	})
}

// A ballot is removed while a confirmation reads it, or has been already when the answer to the removal is still on its way.
// That says nothing about the session: the newest of the other ballots does.
func TestConfirmationWhileABallotIsRemoved(t *testing.T) {
	older, newer := "leadership/a/_ballots/"+sessionID+"-1", "leadership/bb/_ballots/"+sessionID+"-2"
	for _, first := range []string{"the read", "the removal"} {
		t.Run(first+" is sent first", func(t *testing.T) {
			var removed, answered chan struct{} // of the bubble
			var reads atomic.Int64
			virtual(t, leastSessionTTL, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Consul-Index", "9")
				switch {
				case r.URL.Query().Has("index"):
					<-r.Context().Done()
				case r.URL.Path == "/v1/txn":
					close(removed)
					<-answered
					_, _ = io.WriteString(w, `{"Results":[]}`)
				case strings.HasSuffix(r.URL.Path, newer) && reads.Add(1) > 1:
					<-removed
					w.WriteHeader(http.StatusNotFound)
				default:
					_, _ = io.WriteString(w, answerAll(r))
				}
			}, func(t *testing.T, d *driver) {
				opened, _, err := d.Open(t.Context())
				require.NoError(t, err)
				s := opened.(*session)
				removed, answered = make(chan struct{}), make(chan struct{})
				for _, key := range []string{older, newer} {
					_, err := d.WatchEntry(t.Context(), key, func(engine.News) {})
					require.NoError(t, err)
				}
				var sending sync.WaitGroup
				remove := func() {
					gone := engine.Removal{Entry: engine.Entry{Election: "bb", Key: newer, Private: &standing{}}}
					assert.NoError(t, s.Remove(t.Context(), gone))
				}
				confirm := func() {
					_, err := s.confirm(t.Context())
					assert.NoError(t, err)
				}
				if first == "the read" {
					sending.Go(confirm)
					synctest.Wait()
					sending.Go(remove)
				} else {
					sending.Go(remove)
					synctest.Wait()
					sending.Go(confirm)
				}
				synctest.Wait()
				close(answered)
				sending.Wait()
				require.EqualValues(t, map[string]int{"the read": 2, "the removal": 1}[first], reads.Load(), "reads of the ballot")
			})
		})
	}
}
