package haproxy

import (
	"bufio"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/stretchr/testify/require"
)

// trial is three processes, of which the first leads, and balancers before them.
type trial struct {
	*testing.T
	members   []*member
	balancers []*balancer
	checker   *checker
}

// on starts three processes on a store, which has its default TTL of 10 s. The first one leads.
func on(t *testing.T, url string) *trial {
	w := &trial{T: t}
	w.join(url, "a", "/leader")
	w.join(url, "b", "/follower")
	w.join(url, "c", "/follower")
	return w
}

func (w *trial) join(url, name, path string) {
	w.Helper()
	m := begin(w, name, url)
	w.members = append(w.members, m)
	storetest.Eventually(w, func() bool { return m.is(w, path) == http.StatusOK }, "%s: %s", name, path)
}

// behind starts balancers, and clients that send to them when each balancer has checked all processes.
func (w *trial) behind(balancers ...*balancer) {
	w.Helper()
	w.balancers = balancers
	addresses := make([]string, len(balancers))
	for i, b := range balancers {
		addresses[i] = b.start(w, w.members)
	}
	for i, b := range balancers {
		storetest.Eventually(w, func() bool {
			for _, m := range w.members[1:] {
				if m.checked(b.name) < 1 {
					return false
				}
			}
			return w.members[0].checked(b.name) >= 2 // the second one follows all first ones
		}, "%s has checked all", b.name)
		b.client = newClient(w, addresses[i], b.name)
		storetest.Eventually(w, func() bool { return b.served().Name == "a" }, "%s sends to the leader", b.name)
	}
}

// check starts the checker.
func (w *trial) check() {
	w.Helper()
	w.checker = newChecker(w, w.members)
	storetest.Eventually(w, func() bool { return w.checker.seen() >= 1 }, "the checker sees the leader")
}

// succeeds waits until requests flow to another leader than the first one, through each balancer that does not leak, and
// the checker sees it.
func (w *trial) succeeds() {
	w.Helper()
	fault := time.Now()
	for _, b := range w.balancers {
		if b.leaks {
			storetest.Eventually(w, func() bool { return w.members[0].refused(b.name) > 0 },
				"%s sends requests to a process that leads no more", b.name)
			continue
		}
		storetest.Eventually(w, func() bool { name := b.served().Name; return name != "a" && name != "" }, "%s sends to the next leader", b.name)
		last := b.served()
		w.Logf("%s: requests flow to %s after %v", b.name, last.Name, last.received.Sub(fault).Round(time.Millisecond))
	}
	storetest.Eventually(w, func() bool { return w.checker.seen() >= 2 }, "the checker sees the next leader")
}

// ends ends all, and returns the requests that the processes refused, by the balancer.
func (w *trial) ends() map[string][]request {
	w.Helper()
	for _, b := range w.balancers {
		b.stop()
	}
	w.checker.stop()
	refused := map[string][]request{}
	least := map[string]time.Duration{}
	for _, m := range w.members {
		m.end()
		for _, r := range m.requests {
			by := strings.Split(r.Path, "/")[1]
			if !r.Leads {
				refused[by] = append(refused[by], r)
			}
			if before, ok := least[by]; !ok || r.Remaining < before {
				least[by] = r.Remaining
			}
		}
	}
	for _, b := range w.balancers {
		w.Logf("%s: %d requests sent, %d answers, %d refused; at least %v of the lease was left",
			b.name, len(b.sent), len(b.answers), len(refused[b.name]), least[b.name].Round(time.Millisecond))
	}
	w.Logf("the checker asked %d times", w.checker.asked)
	require.Empty(w, w.checker.proves())
	return refused
}

// files is a store in a directory of the test's.
func files(t *testing.T) (url string) { return "file://" + t.TempDir() + "?ttl=10s" }

// TestKill kills the leader. Checks with each method, as HAProxy sends them, find the next one.
func TestKill(t *testing.T) {
	t.Parallel()
	w := on(t, files(t))
	const httpchk = "option httpchk HEAD /leader?margin=2s\n"
	w.behind(
		&balancer{name: "page", check: check{Method: http.MethodHead, Proto: "HTTP/1.0"}},
		&balancer{name: "get", check: check{Method: http.MethodGet, Proto: "HTTP/1.0"}, changes: []string{"HEAD /", "GET /"}},
		// HAProxy's own choice of the method.
		&balancer{name: "default", check: check{Method: http.MethodOptions, Proto: "HTTP/1.0"}, changes: []string{"HEAD /", "/"}},
		&balancer{name: "new", check: check{Method: http.MethodHead, Proto: "HTTP/1.1"}, changes: []string{
			httpchk, "option httpchk\nhttp-check send meth HEAD uri /leader?margin=2s ver HTTP/1.1 hdr Host leader\n",
		}},
	)
	w.check()
	w.members[0].kill()
	w.succeeds()
	require.Empty(t, w.ends())
	for _, b := range w.balancers {
		b.check.By = b.name
		for _, m := range w.members {
			for _, c := range m.checks[b.name] {
				require.Equal(t, b.check, c)
			}
		}
	}
}

// TestFreeze freezes the leader until the next one leads, and lets it go on.
func TestFreeze(t *testing.T) {
	t.Parallel()
	w := on(t, files(t))
	b := &balancer{name: "page"}
	w.behind(b)
	w.check()
	frozen := w.members[0]
	frozen.freeze(t)
	at := time.Now()
	w.succeeds()

	var first []net.Conn // the system accepts connections for a process that stands still
	for range 100 {
		conn, err := net.Dial("tcp", frozen.Status)
		require.NoError(t, err)
		defer conn.Close()
		require.NoError(t, conn.SetDeadline(time.Now().Add(storetest.Watchdog)))
		_, err = conn.Write([]byte("GET /leader HTTP/1.0\r\n\r\n"))
		require.NoError(t, err)
		first = append(first, conn)
	}
	checks := frozen.checked(b.name)
	frozen.thaw(t)
	for _, conn := range first {
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, "the first answers")
	}
	storetest.Eventually(t, func() bool { return frozen.checked(b.name) >= checks+3 }, "HAProxy has checked the process that goes on")

	// What HAProxy had sent to the process before it was out is refused, and nothing was sent later.
	refused := w.ends()[b.name]
	for _, r := range refused {
		require.Equal(t, "a", r.Name)
		require.True(t, b.sent[number(t, r)].Before(b.none(at)), "%v was sent to a process that HAProxy knew to be out", r)
	}
	t.Logf("HAProxy had no server %v after the freeze", b.none(at).Sub(at).Round(time.Millisecond))
}

// number returns the number of a request, which is in its path.
func number(t *testing.T, r request) int {
	_, text, _ := strings.Cut(r.Path[1:], "/")
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// TestCut cuts the link between the leader and the store. What the page shows sends nothing to a process whose lease is
// over; what it warns of does.
func TestCut(t *testing.T) {
	t.Parallel()
	server := testserver.NewEtcd(t, testserver.EtcdConfig{})
	w := on(t, "etcd://"+server.Addrs()[0]+"/?ttl=10s")
	// No margin, and the next check comes after the lease has ended.
	seldom := &balancer{name: "seldom", leaks: true, changes: []string{
		"margin=2s", "margin=0s", "inter 500ms", "inter 9s", "check   500ms", "check   5s",
	}}
	w.behind(
		&balancer{name: "page"},
		// The client keeps its connections: HAProxy has to close them.
		&balancer{name: "tcp", changes: []string{"mode http", "mode tcp"}},
		&balancer{name: "kept", changes: []string{"mode http", "mode tcp", " on-marked-down shutdown-sessions", ""}, leaks: true},
		seldom,
	)
	w.check()
	leader := w.members[0]
	checks := leader.checked(seldom.name)
	storetest.Eventually(t, func() bool { return leader.checked(seldom.name) > checks }, "a check")
	leader.cut(t) // its lease ends after 6.7 s at most, and the next check of seldom comes after 9 s
	w.succeeds()
	refused := w.ends()
	for _, b := range w.balancers {
		require.Equal(t, b.leaks, len(refused[b.name]) > 0, b.name)
	}
}

// TestStart: HAProxy takes each server for up until it has checked it, as the page says.
func TestStart(t *testing.T) {
	t.Parallel()
	w := on(t, files(t))
	b := &balancer{name: "start", changes: []string{"inter 500ms", "inter 60s"}}
	b.client = newClient(t, b.start(t, w.members), b.name)
	storetest.Eventually(t, func() bool {
		for _, m := range w.members[1:] {
			m.mu.Lock()
			arrived := len(m.requests) > 0
			m.mu.Unlock()
			if arrived {
				return true
			}
		}
		return false
	}, "a request to a process that does not lead")
}
