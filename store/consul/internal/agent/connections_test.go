package agent

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// If a request has no answer, the store leaves the agent to which it was sent, with the idle connections to it, and not
// an agent that it turned to meanwhile.
func TestLeaveTheAgentThatIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgents(t, []string{"a", "b", "c"}, func(_ string, req *http.Request) bool {
			return req.URL.Path == "/v1/status/leader"
		})
		silent := func(limit time.Duration) {
			if a.ask(limit) == nil {
				t.Error("it was answered")
			}
		}
		_ = a.client.Ready(t.Context())
		a.dials("a")
		given, giveUp := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, giveUp)
		_, _, err := a.client.Session().Info("id", a.client.ReadOptions(given))
		require.Error(t, err) // which shows nothing about the agent
		var patient sync.WaitGroup
		patient.Go(func() { silent(time.Minute) })
		silent(time.Second)
		a.dials("a", "a")
		silent(time.Second)
		a.dials("b")
		patient.Wait()
		_ = a.client.Ready(t.Context())
		a.dials("c")
	})
}

// A name has two addresses: all connections go to one of them, until it falls silent.
func TestSilentAddressOfANameIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both := func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.1")}, nil
		}
		silent := ""
		a := newNamedAgents(t, []string{"consul:8500"}, both, func(address string, _ *http.Request) bool { return address != silent })
		two := func() {
			var both sync.WaitGroup
			for range 2 {
				both.Go(func() { _ = a.client.Ready(t.Context()) })
			}
			both.Wait()
		}
		two()
		a.dials("10.0.0.2:8500", "10.0.0.2:8500")
		silent = "10.0.0.2:8500"
		require.Error(t, a.ask(time.Second))
		two()
		a.dials("10.0.0.1:8500", "10.0.0.1:8500")
	})
}

// An agent that was left answers late, and its connection is kept. A request without an answer over that connection
// does not make the store leave the present agent.
func TestKeptConnectionOfAnAgentThatWasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		frozen := false // written while no request is under way
		a := newAgents(t, []string{"a", "b"}, func(address string, _ *http.Request) bool {
			if address == "a" {
				time.Sleep(2 * time.Second)
				return !frozen
			}
			return true
		})
		var late sync.WaitGroup
		late.Go(func() {
			if err := a.ask(time.Minute); err != nil {
				t.Error(err)
			}
		})
		require.Error(t, a.ask(time.Second))
		a.dials("a", "a")
		require.NoError(t, a.ask(time.Second))
		a.dials("b")
		late.Wait()
		synctest.Wait()
		frozen = true
		require.Error(t, a.ask(10*time.Second), "it went to b")
		require.NoError(t, a.ask(time.Second))
		a.dials()
	})
}

// The only agent can't be left. If it does not answer, its idle connections are closed, since they might be dead.
func TestLoneAgentIsDialledAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgents(t, []string{"a"}, func(_ string, req *http.Request) bool { return req.URL.Path == "/v1/status/leader" })
		two := func() {
			var both sync.WaitGroup
			for range 2 {
				both.Go(func() { _ = a.client.Ready(t.Context()) })
			}
			both.Wait()
		}
		two()
		a.dials("a", "a")
		two()
		a.dials()
		require.Error(t, a.ask(time.Second))
		two()
		a.dials("a", "a")
	})
}

// The requests of a confirmation wait for no other request.
func TestConfirmationsHaveConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgents(t, []string{"a"}, func(_ string, req *http.Request) bool {
			return !strings.HasPrefix(req.URL.Path, "/v1/kv/")
		})
		ctx, cancel := context.WithCancel(t.Context())
		var others sync.WaitGroup
		for range 100 {
			others.Go(func() { _, _ = a.client.Get(ctx, "key") })
		}
		time.Sleep(time.Second)
		require.Len(t, a.dialed, Burst)
		var requests sync.WaitGroup
		for range 3 {
			requests.Go(func() {
				if a.ask(time.Second) != nil {
					t.Error("it was not answered")
				}
			})
		}
		requests.Go(func() { _, _ = a.client.Get(Confirming(ctx), "key") })
		synctest.Wait()
		time.Sleep(time.Second)
		require.Len(t, a.dialed, Burst+4)
		cancel()
		others.Wait()
		requests.Wait()
	})
}

// Each request may take so long from when it is sent: to open its connection takes time of its own.
func TestWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each = 700 * time.Millisecond
		a := newAgents(t, []string{"a"}, func(_ string, req *http.Request) bool {
			time.Sleep(each)
			return !strings.HasSuffix(req.URL.Path, "/3")
		})
		ctx, cancel := Within(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		for _, id := range []string{"1", "2"} {
			_, _, err := a.client.Session().Info(id, a.client.ReadOptions(ctx))
			require.NoError(t, err)
		}
		_, _, err := a.client.Session().Info("3", a.client.ReadOptions(ctx))
		require.ErrorContains(t, a.client.Explain(err), "no answer in time")
		require.Equal(t, 2*each+time.Second+time.Millisecond, time.Since(began))
	})
}

// A first agent that does not answer is left before the session is opened.
func TestFirstAgentIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgents(t, []string{"a", "b"}, func(address string, _ *http.Request) bool { return address == "b" })
		began := time.Now()
		require.Error(t, a.client.Ready(t.Context()))
		require.Equal(t, time.Hour/2, time.Since(began), "half of its TTL")
		a.dials("a")
		_ = a.client.Ready(t.Context())
		a.dials("b")
	})
}

// Whether its caller's limit or its own ends a request first, the cause is the same.
func TestNoAnswerInTime(t *testing.T) {
	for _, limit := range []time.Duration{RequestLimit - 1, RequestLimit, RequestLimit + 1} {
		synctest.Test(t, func(t *testing.T) {
			a := newAgents(t, []string{"a"}, func(string, *http.Request) bool { return false })
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			_, err := a.client.Get(ctx, "key")
			require.ErrorContains(t, err, "no answer in time")
		})
	}
}

// closing is a connection that takes a second to be closed.
type closing struct {
	net.Conn
	closed atomic.Bool
}

func (c *closing) Close() error {
	time.Sleep(time.Second)
	c.closed.Store(true)
	return c.Conn.Close()
}

// A request was given up, and its dial goes on. The dial succeeds in the moment in which the client is closed. When Close
// returns, the connection is closed.
func TestCloseWaitsForDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life := adapter.NewLifecycle("consul", false, "")
		defer life.Stop()
		ours, theirs := net.Pipe()
		defer theirs.Close()
		conn := &closing{Conn: ours}
		c, err := New(life, Config{
			Addresses: []string{"a"}, TTL: time.Hour, Logger: slog.New(slog.DiscardHandler),
			Dialer: adapter.NewDialer(func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return conn, nil }, nil),
		})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = c.Get(ctx, "key")
		require.Error(t, err)
		c.Close()
		require.True(t, conn.closed.Load())
	})
}

// agents is a client of agents whose answers a test decides.
type agents struct {
	t      *testing.T
	client *Client
	dialed chan string
}

// newAgents returns agents. answers reports whether an agent answers a request.
func newAgents(t *testing.T, addresses []string, answers func(address string, req *http.Request) bool) *agents {
	return newNamedAgents(t, addresses, nil, answers)
}

// connected is a connection to an address.
type connected struct {
	net.Conn
	address netip.AddrPort
}

func (c connected) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.address) }

// newNamedAgents is newAgents for names that are looked up.
func newNamedAgents(t *testing.T, addresses []string, lookup func(context.Context, string) ([]netip.Addr, error),
	answers func(address string, req *http.Request) bool,
) *agents {
	a := &agents{t: t, dialed: make(chan string, 128)}
	life := adapter.NewLifecycle("consul", false, "")
	var serving sync.WaitGroup
	var err error
	a.client, err = New(life, Config{
		Addresses: addresses, TTL: time.Hour, Logger: slog.New(slog.DiscardHandler),
		Dialer: adapter.NewDialer(func(_ context.Context, _, address string) (net.Conn, error) {
			time.Sleep(time.Millisecond) // so that requests that are sent at once each need a connection
			a.dialed <- address
			conn, agent := net.Pipe()
			serving.Go(func() {
				defer agent.Close()
				for r := bufio.NewReader(agent); ; {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					if answers(address, req) {
						_, _ = io.WriteString(agent, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")
					}
				}
			})
			at, _ := netip.ParseAddrPort(address)
			return connected{conn, at}, nil
		}, lookup),
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		life.Stop()
		life.Wait()
		a.client.Close()
		time.Sleep(time.Second) // until dials under way have ended
		serving.Wait()
	})
	return a
}

// dials checks which agents connections were opened to.
func (a *agents) dials(addresses ...string) {
	a.t.Helper()
	synctest.Wait()
	var dialed []string
	for len(a.dialed) > 0 {
		dialed = append(dialed, <-a.dialed)
	}
	require.Equal(a.t, strings.Join(addresses, " "), strings.Join(dialed, " "))
}

// ask sends a read of a confirmation.
func (a *agents) ask(limit time.Duration) error {
	ctx, cancel := context.WithTimeout(a.t.Context(), limit)
	defer cancel()
	_, _, err := a.client.Session().Info("id", a.client.ReadOptions(ctx))
	return err
}

// The time of a request is over because the process has stood still: an answer that has come is read.
func TestAnswerAfterAStandstill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgents(t, []string{"a"}, func(_ string, req *http.Request) bool {
			time.Sleep(adapter.Standstill / 2)
			return req.URL.Path == "/v1/session/info/answered"
		})
		for id, answered := range map[string]bool{"answered": true, "silent": false} {
			ctx, cancel := Within(t.Context(), -2*adapter.Standstill)
			_, _, err := a.client.Session().Info(id, a.client.ReadOptions(ctx))
			require.Equal(t, !answered, errors.Is(context.Cause(ctx), context.DeadlineExceeded), "%s: %v", id, err)
			cancel()
		}
	})
}

// An agent is not left for a silence in which the process itself has stood still.
func TestStandstillLeavesNoAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgents(t, []string{"a", "b"}, func(string, *http.Request) bool { return false })
		ask := func(late time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, _, err := a.client.Session().Info("id", a.client.ReadOptions(noticedLate{ctx, late}))
			require.Error(t, err)
		}
		ask(2 * adapter.Standstill)
		ask(0)
		a.dials("a", "a")
		ask(0)
		a.dials("b")
	})
}

// noticedLate is a context whose end comes some time after its deadline.
type noticedLate struct {
	context.Context
	late time.Duration
}

func (c noticedLate) Deadline() (time.Time, bool) {
	due, ok := c.Context.Deadline()
	return due.Add(-c.late), ok
}

// An agent that takes no more connections from an address answers before it is asked. The error names the setting. net/http
// prints nothing, even if no request uses the connection any more.
func TestTooManyConnections(t *testing.T) {
	var printed bytes.Buffer
	log.SetOutput(&printed)
	defer log.SetOutput(os.Stderr)
	synctest.Test(t, func(t *testing.T) {
		life := adapter.NewLifecycle("consul", false, "")
		defer life.Stop()
		c, err := New(life, Config{
			Addresses: []string{"a"}, TTL: time.Hour, Logger: slog.New(slog.DiscardHandler),
			Dialer: adapter.NewDialer(func(context.Context, string, string) (net.Conn, error) {
				time.Sleep(time.Second)
				ours, theirs := net.Pipe()
				go func() {
					_, _ = io.WriteString(theirs, "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 81\r\nConnection: close\r\n\r\n"+
						"Your IP is issuing too many concurrent connections, please rate limit your calls\n")
					_, _ = io.Copy(io.Discard, theirs)
				}()
				return ours, nil
			}, nil),
		})
		require.NoError(t, err)
		defer c.Close()
		given, giveUp := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/2, giveUp)
		_, err = c.Get(given, "key")
		require.ErrorIs(t, err, store.ErrUnavailable)
		time.Sleep(time.Second) // the dial goes on
		_, err = c.Get(t.Context(), "key")
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.NotErrorIs(t, err, store.ErrUnknownOutcome)
		require.ErrorContains(t, err, "http_max_conns_per_client")
	})
	require.Empty(t, printed.String())
}
