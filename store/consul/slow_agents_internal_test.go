package consul

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// The lease of a session goes on at the round trips that docs/backends.md promises: TTL/8, and TTL/24 if one of two agents
// falls silent.
func TestSteadyAnswers(t *testing.T) {
	for _, l := range []slowLink{
		{agents: 1, ttl: leastTTL, share: 8, fromStart: true},
		{agents: 1, ttl: leastTTL, share: 8},
		{agents: 1, ttl: leastSessionTTL, share: 8, fromStart: true},
		{agents: 1, ttl: leastSessionTTL, share: 8},
		{agents: 1, ttl: mostTTL, share: 8},
		{agents: 2, ttl: leastSessionTTL, share: 8, fromStart: true},
		{agents: 2, ttl: leastSessionTTL, share: 8},
		{agents: 2, ttl: leastSessionTTL, share: 24, fromStart: true, silent: true},
	} {
		t.Run(fmt.Sprintf("%+v", l), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { require.NoError(t, l.keep(t)) })
		})
	}
}

// No answer comes any more. The session is given up a TTL after the last renewal that counted: the service might have ended
// the session, and no watch tells that.
func TestSilentAgentCostsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := slowLink{agents: 1, ttl: leastSessionTTL, share: 24, silent: true}
		require.ErrorContains(t, l.keep(t), "not confirmed for longer than the ttl 10s")
	})
}

// slowLink is a link to agents that answer what opens, confirms and ends a session.
type slowLink struct {
	agents    int
	ttl       time.Duration
	fromStart bool          // it is slow from the start; otherwise after a TTL
	silent    bool          // the first agent is, after a TTL
	share     time.Duration // of the TTL that a round trip takes: an eighth if it is 8
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
					silent := l.silent && late() && strings.HasPrefix(address, "a:")
					if silent || req.URL.Query().Has("index") { // nothing changes
						continue
					}
					slow(l.ttl / l.share)
					text := answerTo(req)
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
		}
	})
	_ = s.End(t.Context(), nil)
	if ctx.Err() != nil {
		return broken
	}
	return fmt.Errorf("it was given up: %w", err)
}

// answerTo returns what an agent answers.
func answerTo(req *http.Request) string {
	switch path := req.URL.Path; {
	case strings.HasPrefix(path, "/v1/agent/"):
		return ""
	case strings.HasSuffix(path, "/create"):
		return `{"ID":"id"}`
	case strings.HasSuffix(path, "/destroy/id"):
		return "true"
	case path == "/v1/status/leader":
		return `"a:8300"`
	}
	return `[{"ID":"id"}]`
}
