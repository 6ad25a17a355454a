package redirect_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/redirect"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

const (
	election = "database/primary"
	ttl      = 12 * time.Second
)

// process is one process of the service.
type process struct {
	http.Handler
	*leadership.Candidate
	store *memory.Store
}

// start returns a process on a service, whose follower is on a store of its own if one is given.
func start(t *testing.T, on *memory.Service, self string, follow store.Store, next http.HandlerFunc) *process {
	t.Helper()
	st, err := memory.Open(on, &memory.Config{TTL: ttl})
	require.NoError(t, err)
	if follow == nil {
		follow = st
	}
	c, err := leadership.NewCandidate(st, election, self, nil)
	require.NoError(t, err)
	f, err := leadership.NewFollower(follow, election, nil)
	require.NoError(t, err)
	h, err := redirect.New(c, f, next)
	require.NoError(t, err)
	t.Cleanup(func() {
		c.Stop()
		f.Stop()
		select {
		case <-c.Done():
		case <-time.After(10 * ttl): // a test that has failed did not withdraw its term
		}
		<-f.Done()
		require.NoError(t, st.Close())
	})
	return &process{h, c, st}
}

// answers says which process has answered a request.
func answers(self string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s answers %s %s %s", self, r.Method, r.URL, body)
	}
}

// get returns the status of an answer, and its text or where it redirects to.
func (p *process) get(path string) string {
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
	if to := w.Header().Get("Location"); to != "" {
		return fmt.Sprint(w.Code, " ", to)
	}
	if w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") != "1" {
		return "503 without Retry-After"
	}
	return fmt.Sprint(w.Code, " ", strings.TrimSpace(w.Body.String()))
}

const noLeader = "503 no leader at the moment"

// One process answers, and the other redirects to it. If the leader is cut off, it answers until its lease ends. The
// other one answers when the session has ended.
func TestLeaderIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := memory.NewService()
		a := start(t, on, "http://a:80", nil, answers("a"))
		b := start(t, on, "https://b:443/ignored?x", nil, answers("b"))
		require.Equal(t, noLeader, a.get("/"))
		go a.Run(t.Context(), leadership.Lead)
		synctest.Wait()
		go b.Run(t.Context(), leadership.Lead)
		synctest.Wait()
		require.Equal(t, "200 a answers POST /x?y", a.get("/x?y"))
		for _, path := range []string{"/x%20y?z=1", "/a%2Fb?", "//evil/", "/?u=http://evil/", "/x?a;b"} {
			require.Equal(t, "307 http://a:80"+path, b.get(path))
		}
		require.Equal(t, "307 http://a:80/x", b.get("http://evil/x"), "as a proxy is asked")

		a.store.Faults().Cut()
		pass := func() { time.Sleep(time.Second); synctest.Wait() }
		for pass(); !b.IsLeader(); pass() {
			require.Equal(t, a.IsLeader(), strings.HasPrefix(a.get("/"), "200"))
			require.Contains(t, []string{"307 http://a:80/", noLeader}, b.get("/"))
		}
		require.Regexp(t, `^200 b answers`, b.get("/"))
		require.Equal(t, noLeader, a.get("/"), "it does not send clients to itself")

		a.store.Faults().Heal()
		time.Sleep(ttl)
		synctest.Wait()
		require.Equal(t, "307 https://b:443/", a.get("/"))
	})
}

// A process that takes over or winds down sends no client on, and is sent none before it has acknowledged.
func TestTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := memory.NewService()
		a, b := start(t, on, "http://a", nil, answers("a")), start(t, on, "http://b", nil, answers("b"))
		is := func(atA, atB string) {
			t.Helper()
			synctest.Wait()
			require.Equal(t, atA, a.get("/"))
			require.Equal(t, atB, b.get("/"))
		}
		term, err := a.Campaign(t.Context())
		require.NoError(t, err)
		is(noLeader, noLeader)
		require.NoError(t, term.Acknowledge(t.Context()))
		is("200 a answers POST /", "307 http://a/")
		a.Resign()
		is(noLeader, "307 http://a/")
		require.NoError(t, term.Withdraw(t.Context()))
		is(noLeader, noLeader)
	})
}

// The context of a request that the leader serves ends with the term.
func TestContextOfARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		serving := make(chan error, 1)
		a := start(t, memory.NewService(), "http://a", nil, func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			serving <- context.Cause(r.Context())
		})
		go a.Run(t.Context(), leadership.Lead)
		synctest.Wait()
		go a.get("/")
		synctest.Wait()
		require.Empty(t, serving)
		a.Resign()
		require.ErrorIs(t, <-serving, leadership.ErrResigned)
	})
}

// scripted is a store whose leader the test says.
type scripted struct {
	store.Store
	known chan store.Known
}

func (s *scripted) Observe(ctx context.Context, _ string, _ *store.Known) (store.Known, error) {
	select {
	case known := <-s.known:
		return known, nil
	case <-ctx.Done():
		return store.Known{}, context.Cause(ctx)
	}
}

// Two processes disagree on who leads: b has led after a, and its follower has not heard of that. If b sent clients to a, a
// would send them back.
func TestNoLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := memory.NewService()
		old, err := memory.Open(on, nil)
		require.NoError(t, err)
		defer old.Close()
		follow := &scripted{old, make(chan store.Known)}
		b := start(t, on, "http://b", follow, answers("b"))
		hears := func(value string, revision uint64) {
			follow.known <- store.Known{Leader: store.Leader{Value: value, Revision: revision}, AsOf: time.Now()}
			synctest.Wait()
		}
		hears("http://a", 1)
		require.Equal(t, "307 http://a/", b.get("/"))
		for _, acknowledges := range []bool{true, false} {
			time.Sleep(time.Second)
			asOf := time.Now()
			term, err := b.Campaign(t.Context())
			require.NoError(t, err)
			if acknowledges { // otherwise others might think so, as after an answer that was lost
				require.NoError(t, term.Acknowledge(t.Context()))
			}
			revision := b.Status().Revision
			require.Equal(t, acknowledges, revision != 0)
			require.NoError(t, term.Withdraw(t.Context()))
			require.Equal(t, noLeader, b.get("/"), "a has led before b")
			time.Sleep(time.Second)
			require.Equal(t, noLeader, b.get("/"))
			follow.known <- store.Known{Leader: store.Leader{Value: "http://a", Revision: revision + 1}, AsOf: asOf}
			synctest.Wait()
			require.Equal(t, acknowledges, b.get("/") == "307 http://a/", "a leads after b, by the revision")
			hears("http://a", 1)
			require.Equal(t, "307 http://a/", b.get("/"), "a leads after b, by the time")
		}
		hears("not a URL", 4)
		require.Equal(t, `503 redirect: the value of a candidate is not an absolute URL for HTTP: "not a URL"`, b.get("/"))
	})
}

// A handler whose follower has ended sends clients nowhere.
func TestFollowerHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := memory.NewService()
		a := start(t, on, "http://a", nil, answers("a"))
		go a.Run(t.Context(), leadership.Lead)
		b := start(t, on, "http://b", nil, answers("b"))
		synctest.Wait()
		require.Equal(t, "307 http://a/", b.get("/"))
		require.NoError(t, b.store.Close())
		synctest.Wait()
		require.Equal(t, noLeader, b.get("/"))
	})
}

// A connection that outlives its request would outlive the term.
func TestWebSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := memory.NewService()
		a, b := start(t, on, "http://a", nil, answers("a")), start(t, on, "http://b", nil, answers("b"))
		go a.Run(t.Context(), leadership.Lead)
		synctest.Wait()
		for _, p := range []*process{a, b} {
			upgrade := httptest.NewRequest(http.MethodGet, "/", nil)
			upgrade.Header.Set("Upgrade", "WebSocket")
			for _, r := range []*http.Request{upgrade, httptest.NewRequest(http.MethodConnect, "/", nil)} {
				w := httptest.NewRecorder()
				p.ServeHTTP(w, r)
				require.Equal(t, http.StatusNotImplemented, w.Code)
			}
		}
		h2c := httptest.NewRequest(http.MethodGet, "/", nil)
		h2c.Header.Set("Upgrade", "h2c") // a server may ignore it
		w := httptest.NewRecorder()
		a.ServeHTTP(w, h2c)
		require.Equal(t, http.StatusOK, w.Code)
	})
}

// A client reaches the leader from each process, with its body, and on connections that are kept alive while the leader
// changes.
func TestClientReachesTheLeader(t *testing.T) {
	on := memory.NewService()
	var processes []*process
	var servers []*httptest.Server
	for range 2 {
		var h http.Handler
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r) }))
		defer server.Close()
		p := start(t, on, server.URL, nil, answers(server.URL))
		h = p
		processes, servers = append(processes, p), append(servers, server)
	}
	client := &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	post := func(url string) string {
		r, err := client.Post(url+"/x", "text/plain", strings.NewReader("hello"))
		require.NoError(t, err)
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		return string(text)
	}
	for _, leader := range []int{0, 1, 0} {
		term, err := processes[leader].Campaign(t.Context())
		require.NoError(t, err)
		require.NoError(t, term.Acknowledge(t.Context()))
		want := servers[leader].URL + " answers POST /x hello"
		for _, server := range servers {
			require.Eventually(t, func() bool { return post(server.URL) == want }, time.Minute, time.Millisecond)
		}
		require.NoError(t, term.Withdraw(t.Context()))
	}
}

func TestNewRefuses(t *testing.T) {
	st, err := memory.Open(memory.NewService(), nil)
	require.NoError(t, err)
	defer st.Close()
	f, err := leadership.NewFollower(st, election, nil)
	require.NoError(t, err)
	defer f.Stop()
	for _, self := range []string{"a:80", "/x", "http://%", "ftp://a"} {
		c, err := leadership.NewCandidate(st, election, self, nil)
		require.NoError(t, err)
		_, err = redirect.New(c, f, nil)
		require.EqualError(t, err, fmt.Sprintf("redirect: the value of a candidate is not an absolute URL for HTTP: %q", self))
	}
	c, err := leadership.NewCandidate(st, "other", "http://a", nil)
	require.NoError(t, err)
	_, err = redirect.New(c, f, nil)
	require.EqualError(t, err, `redirect: the candidate is of election "other", and the follower of "database/primary"`)
}
