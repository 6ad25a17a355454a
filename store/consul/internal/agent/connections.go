package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/hashicorp/consul/api"
)

// connections carries the requests of a client of the store's own. An agent takes 200 connections from an address, unless
// the agent was told otherwise, and speaks HTTP/1.1 without TLS: a request that waits for a change holds a connection.
//
// So the number of requests at once is limited, see Queries and Burst. A connection without requests is closed after a TTL.
// The confirmations of the session and of the watches, which are sent more often, keep some open for the other requests.
//
// Agents compress answers of more than 1,400 bytes for a client that allows it, as this one does (BenchmarkHerd shows what
// is transferred).
type connections struct {
	dialer    *dialer
	transport *http.Transport
	logger    *slog.Logger

	current  func(ctx context.Context) (string, error) // returns the token
	patience time.Duration                             // constant: what current may take once it has returned one
	last     atomic.Pointer[string]                    // that it returned
}

const (
	// Queries is how many blocking queries for keys a client is meant to have under way.
	Queries = 40
	// Burst is how many requests for keys are under way besides.
	Burst = 16

	leastIdle = 5 * time.Second // for which connections are kept
	mostIdle  = time.Minute
)

func newConnections(d *dialer, c Config) *connections {
	n := &connections{dialer: d, logger: c.Logger, current: c.Token, patience: c.TTL / 12, transport: &http.Transport{
		DialContext: d.connect, MaxIdleConnsPerHost: Queries + Burst, IdleConnTimeout: min(max(c.TTL, leastIdle), mostIdle),
	}}
	if n.current == nil {
		n.current = func(context.Context) (string, error) { return "", nil }
	}
	if c.TLS != nil {
		n.transport.DialTLSContext = d.connect
	}
	return n
}

// unset stands for a setting that the store does not have. The library would complete what its configuration leaves out from
// the environment.
const unset = "-"

// newAPIClient returns a client that uses the connections. The dialer knows the agents.
func newAPIClient(n *connections, c Config) (*api.Client, error) {
	settings := &api.Config{
		Address: c.Addresses[0], Scheme: "http", HttpClient: &http.Client{
			Transport: n,
			// Agents redirect no request of the store's. What does is something else, whose answer is odd.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		Token: unset, Namespace: cmp.Or(c.Namespace, unset), Partition: cmp.Or(c.Partition, unset),
	}
	if c.TLS != nil {
		settings.Scheme = "https"
	}
	return api.NewClient(settings)
}

// RoundTrip implements http.RoundTripper. If no answer has come when the time of the request is over, the agent that the
// request went to is left: the next connections are to another one. The idle connections are closed, since they might be
// dead. If another agent has been turned to already, or the process stood still at the end of that time, nothing is done.
func (n *connections) RoundTrip(req *http.Request) (*http.Response, error) {
	at := n.dialer.next.Load()
	var got atomic.Pointer[tracked] // the last, if the request is sent again
	ctx := httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if conn, ok := info.Conn.(*tracked); ok {
			got.Store(conn)
		}
	}})
	token, err := n.token(ctx)
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	resp, err := n.transport.RoundTrip(complete(req.WithContext(ctx), token))
	if err == nil || !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return resp, err
	}
	if due, ok := ctx.Deadline(); ok && adapter.StoodStill(due) {
		return resp, err
	}
	if conn := got.Load(); conn != nil {
		at = conn.at
		n.dialer.names.Leave(n.dialer.addresses[at], conn.RemoteAddr())
	}
	if n.dialer.skip(at) {
		n.transport.CloseIdleConnections()
	}
	return resp, err
}

// token returns the token of the moment. While there is none, the last one might still do: else an outage of what issues
// tokens would end terms, whether it refuses or hangs. At round trips of TTL/8 with a connection for each confirmation, a
// lease of two thirds of the TTL has room for two times TTL/12.
func (n *connections) token(ctx context.Context) (string, error) {
	limited := ctx
	if n.last.Load() != nil {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, n.patience)
		defer cancel()
	}
	token, err := n.current(limited)
	if err == nil {
		n.last.Store(&token)
		return token, nil
	}
	n.logger.Debug("there is no token", "error", err)
	if last := n.last.Load(); last != nil {
		return *last, nil
	}
	return "", err
}

// complete returns a request with the token, and without what is unset.
func complete(req *http.Request, token string) *http.Request {
	req = req.Clone(req.Context())
	req.Header.Del("X-Consul-Token")
	if token != "" {
		req.Header.Set("X-Consul-Token", token)
	}
	query := req.URL.Query()
	for _, name := range []string{"ns", "partition"} {
		if query.Get(name) == unset {
			query.Del(name)
		}
	}
	req.URL.RawQuery = query.Encode()
	return req
}

// Within returns a context for requests, one after the other. It ends with context.DeadlineExceeded when the last one has had
// no answer for the limit since it was sent: to open a connection takes time of its own. If the process itself has stood still
// meanwhile, an answer that has come gets a moment to be read.
func Within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	var sent atomic.Int64 // how many requests were
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		due, n := time.Now().Add(limit), sent.Add(1)
		end := func() {
			if sent.Load() == n {
				cancel(context.DeadlineExceeded)
			}
		}
		time.AfterFunc(limit, func() {
			if adapter.StoodStill(due) {
				time.AfterFunc(adapter.Standstill, end)
			} else {
				end()
			}
		})
	}}), func() { cancel(nil) }
}

// Ready returns an error if the servers have no leader, or the agent does not answer: then that agent is left
// (TestFirstAgentIsSilent). It sends one request. So the round trips that make a connection take nothing off the lease of
// a session that is created next.
func (c *Client) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(RequestLimit, c.config.TTL)/2)
	defer cancel()
	leader, err := c.Status().LeaderWithQueryOptions(c.ReadOptions(ctx))
	if err = c.Explain(err); err != nil && !errors.Is(err, ErrOdd) && adapter.Uncertain(err) {
		return err
	}
	if err == nil && leader == "" {
		return fmt.Errorf("%w: the servers have no leader", store.ErrUnavailable)
	}
	return nil
}
