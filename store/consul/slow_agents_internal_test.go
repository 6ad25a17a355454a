package consul

import (
	"bufio"
	"context"
	"errors"
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

// The lease of a session goes on at round trips up to the limits of docs/backends.md, and not above them: from the start,
// or when the link turns slow, or when an agent falls silent that is not the only one. It makes no difference which of the
// ways is slow, nor how long the TTL is.
func TestLimitsOfSlowLinks(t *testing.T) {
	const third, silent = 1. / 3, (1./12 - 0.005) / 2 // T/4 + T/3 + 50 ms + 2R < 2/3 T
	for _, c := range []struct {
		link  slowLink
		limit float64 // in TTLs
	}{
		{slowLink{agents: 1, ttl: leastTTL, fromStart: true}, third},
		{slowLink{agents: 1, ttl: leastTTL}, third},
		{slowLink{agents: 1, ttl: leastSessionTTL, fromStart: true}, third},
		{slowLink{agents: 1, ttl: leastSessionTTL}, third},
		{slowLink{agents: 1, ttl: mostTTL, fromStart: true}, third},
		{slowLink{agents: 1, ttl: mostTTL}, third},
		{slowLink{agents: 2, ttl: leastSessionTTL, fromStart: true}, 0.3}, // dialLimit
		{slowLink{agents: 2, ttl: leastSessionTTL}, 7. / 24},
		{slowLink{agents: 2, ttl: leastSessionTTL, fromStart: true, silence: "before the header"}, silent},
		{slowLink{agents: 2, ttl: leastSessionTTL, fromStart: true, silence: "behind the header"}, silent},
	} {
		for _, share := range []float64{0.15, 0.6, 0.97, 1.03, 1.5} {
			for _, there := range []float64{0, 1} {
				r := share * c.limit * float64(c.link.ttl)
				c.link.there, c.link.back = time.Duration(there*r), time.Duration((1-there)*r)
				t.Run(fmt.Sprintf("%+v, %v of the limit", c.link, share), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						if err := c.link.keep(t); share < 1 {
							require.NoError(t, err)
						} else {
							require.Error(t, err)
						}
					})
				})
			}
		}
	}
}

// slowLink is a link to agents that answer what opens, confirms and ends a session.
type slowLink struct {
	agents      int
	ttl         time.Duration
	fromStart   bool   // it is slow from the start; otherwise after a TTL
	silence     string // of the first agent, after a TTL
	there, back time.Duration
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
			slow(l.there + l.back)
			conn, agent := net.Pipe()
			serving.Go(func() {
				defer agent.Close()
				for r := bufio.NewReader(agent); ; {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					silence := ""
					if late() && strings.HasPrefix(address, "a:") {
						silence = l.silence
					}
					if silence == "before the header" || req.URL.Query().Has("index") { // nothing changes
						continue
					}
					slow(l.there)
					slow(l.back)
					text := answerTo(req)
					_, _ = fmt.Fprintf(agent, "HTTP/1.1 200 OK\r\nX-Consul-Index: 1\r\nContent-Length: %d\r\n\r\n", len(text))
					if silence == "" {
						_, _ = io.WriteString(agent, text)
					}
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
	if errors.Is(err, context.DeadlineExceeded) {
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
	}
	return `[{"ID":"id"}]`
}
