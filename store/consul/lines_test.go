package consul_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/storetest"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/stretchr/testify/require"
)

// Each kind of request of a confirmation has a connection of its own, opened before the session and used each time. So
// if the link turns slow, no confirmation has to open a connection first, which takes another round trip.
func TestConfirmationsHaveConnections(t *testing.T) {
	const pass, read, renewal = "PUT /v1/agent/check/update/", "GET /v1/session/info/", "PUT /v1/session/renew/"
	for name, c := range map[string]struct {
		ttl   time.Duration
		kinds []string
	}{
		"check": {checked, []string{pass, read, renewal}}, "session": {long, []string{read, renewal}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var logs [8]dialLog
			var group sync.WaitGroup
			for i := range logs {
				st := open(t, consul.Config{Dial: logs[i].dial, TTL: c.ttl})
				group.Go(func() {
					if _, err := storetest.Campaign(soon(t), st, newElection(), "own"); err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
			for i := range logs {
				l := &logs[i]
				eventually(t, func() bool { return len(l.all(read)) >= 3 && len(l.all(renewal)) > 0 }, "confirmations")
				created, used := l.all("PUT /v1/session/create")[0], map[int]string{}
				for _, kind := range c.kinds {
					conn := l.all(kind)[0].conn
					for _, request := range l.all(kind) {
						require.Equal(t, conn, request.conn, "%s has several connections", kind)
					}
					require.Less(t, conn, created.at, "%s: its connection was opened after the session", kind)
					require.Empty(t, used[conn], "%s shares a connection", kind)
					used[conn] = kind
				}
				for _, request := range l.all("PUT /v1/txn") {
					require.Empty(t, used[request.conn], "a ballot's request goes over a connection of confirmations")
				}
			}
		})
	}
}

// The store keeps its connections to its only agent if a confirmation is answered late: opening them again would take a
// round trip each.
func TestLoneAgentIsLate(t *testing.T) {
	t.Parallel()
	tp := newTap(t)
	var log dialLog
	b := castFirst(t, open(t, consul.Config{Addresses: tp.addr(), Dial: log.dial, TTL: checked}), newElection(), "own")
	const look = "PUT /v1/txn"
	cast := len(log.all(look))
	eventually(t, func() bool { return len(log.all(look)) > cast }, "a look at the ballot")
	late := tp.catch(func(tp *tap, w http.ResponseWriter, r *http.Request, body []byte) {
		select {
		case <-time.After(checked * 5 / 12):
		case <-r.Context().Done():
		}
		tp.forward(w, r, body)
	}, "PUT", "check/update")
	receive(t, late.caught, "the late answer")
	looks := log.all(look)
	eventually(t, func() bool { return len(log.all(look)) > len(looks) }, "another look")
	for _, request := range log.all(look)[cast:] {
		require.Equal(t, looks[cast].conn, request.conn, "looks have several connections")
	}
	require.NoError(t, b.Err())
}

// dialLog numbers the connections that its dial opens and the requests sent over them, in one order.
type dialLog struct {
	mu   sync.Mutex
	n    int // guarded by mu, as is sent
	sent []logged
}

// logged is a request. The numbers show when it was sent, and when its connection was opened.
type logged struct {
	at, conn int
	line     string
}

func (l *dialLog) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	return &loggedConn{conn, l, l.n}, nil
}

// all returns the requests of a kind, without watches.
func (l *dialLog) all(kind string) []logged {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []logged
	for _, s := range l.sent {
		if strings.HasPrefix(s.line, kind) && !strings.Contains(s.line, "index=") {
			found = append(found, s)
		}
	}
	return found
}

type loggedConn struct {
	net.Conn
	log *dialLog
	n   int
}

// Write implements net.Conn. The client writes a request at once.
func (c *loggedConn) Write(p []byte) (int, error) {
	line, _, _ := strings.Cut(string(p), "\r\n")
	c.log.mu.Lock()
	c.log.n++
	c.log.sent = append(c.log.sent, logged{c.log.n, c.n, line})
	c.log.mu.Unlock()
	return c.Conn.Write(p)
}
