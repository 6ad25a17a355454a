package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/hashicorp/consul/api"
)

// connections carries the requests of a client of the store's own. An agent takes 200 connections from an address, unless
// it was told otherwise, and speaks HTTP/1.1 without TLS: a request that waits for a change holds a connection.
//
// What opens, confirms and ends the session, and what confirms the watches, has connections that are kept, and waits for no
// other request. One connection is kept for what else is sent now and again. What comes while that is busy has connections
// which are closed soon afterwards, a few at a time (TestFewConnections); and so has each blocking query: once it has ended
// and no other follows, nothing of it is left, neither here nor at the agent.
//
// Agents compress answers of more than 1,400 bytes for a client that allows it, as this one does (BenchmarkHerd shows what
// is transferred).
type connections struct {
	dialer  *dialer
	session *http.Transport // keeps those of the session's requests
	steady  *http.Transport // keeps one connection
	brief   *http.Transport // keeps those it has for a moment only
	turn    chan struct{}   // has room for the one who uses steady
	extra   chan struct{}   // has room for those who use brief at the same time, blocking queries apart
	base    *url.URL        // of the requests: the dialer knows the agents
	token   string
	query   map[string]string // the parts of each request's query that name what it is about
}

const (
	// Queries is how many blocking queries for keys a client is meant to have under way.
	Queries = 64
	// Burst is how many requests are under way besides the one on the kept connection.
	Burst = 16

	briefly   = 100 * time.Millisecond
	idleAtTTL = 5 * time.Second // the least for which connections of the session are kept
	together  = 3               // requests confirm a session
)

func newConnections(d *dialer, c Config) *connections {
	kept := func(idle int, timeout time.Duration) *http.Transport {
		t := &http.Transport{DialContext: d.open, MaxIdleConnsPerHost: idle, IdleConnTimeout: timeout}
		if c.TLS != nil {
			t.DialTLSContext = d.open
		}
		return t
	}
	n := &connections{
		dialer:  d,
		session: kept(together+1, max(c.TTL, idleAtTTL)), steady: kept(0, 0), brief: kept(Queries+Burst, briefly),
		turn: make(chan struct{}, 1), extra: make(chan struct{}, Burst),
		base: &url.URL{Scheme: "http", Host: c.Addresses[0]}, token: c.Token,
		query: map[string]string{"ns": c.Namespace, "partition": c.Partition},
	}
	if c.TLS != nil {
		n.base.Scheme = "https"
	}
	n.steady.MaxConnsPerHost = 1
	return n
}

// newAPIClient returns a client that uses the connections. The library completes what its configuration leaves out from
// the environment: what it may find there is given a value here, and replaced or removed in each request.
func newAPIClient(n *connections, c Config) (*api.Client, error) {
	const replaced = "-"
	return api.NewClient(&api.Config{
		Address: n.base.Host, Scheme: n.base.Scheme, HttpClient: &http.Client{
			Transport: n,
			// Agents redirect no request of the store's. What does is something else, whose answer is odd.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		Token: replaced, Namespace: replaced, Partition: replaced,
	})
}

// RoundTrip implements http.RoundTripper. If an answer has not come, or not all of it, when the time of the request is
// over, the agent that the request went to is left: the next connections are to another one. The idle connections are
// closed, since they might be dead. If another agent has been turned to already, nothing is done.
func (n *connections) RoundTrip(req *http.Request) (*http.Response, error) {
	at := n.dialer.present()
	var got atomic.Pointer[tracked] // the last, if the request is sent again
	ctx := httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if conn, ok := info.Conn.(*tracked); ok {
			got.Store(conn)
		}
	}})
	failed := sync.OnceFunc(func() {
		if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			return
		}
		if conn := got.Load(); conn != nil {
			at = conn.at
		}
		if n.dialer.pass(at) {
			n.closeIdle()
		}
	})
	t, done, err := n.choose(req)
	if err != nil {
		failed()
		return nil, err
	}
	resp, err := t.RoundTrip(n.complete(req.WithContext(ctx)))
	if err != nil {
		done()
		failed()
		return nil, err
	}
	resp.Body = &body{resp.Body, failed, done}
	return resp, nil
}

// choose returns the transport that a request is to use. It waits for a turn, which ends with done.
func (n *connections) choose(req *http.Request) (t *http.Transport, done func(), err error) {
	if t := n.own(req); t != nil {
		return t, func() {}, nil
	}
	select {
	case n.turn <- struct{}{}:
		return n.steady, sync.OnceFunc(func() { <-n.turn }), nil
	default:
	}
	select {
	case n.extra <- struct{}{}:
		return n.brief, sync.OnceFunc(func() { <-n.extra }), nil
	case <-req.Context().Done():
		return nil, nil, context.Cause(req.Context())
	}
}

// complete returns a request with the store's settings in place of those of the library.
func (n *connections) complete(req *http.Request) *http.Request {
	req = req.Clone(req.Context())
	req.Header.Del("X-Consul-Token")
	if n.token != "" {
		req.Header.Set("X-Consul-Token", n.token)
	}
	query := req.URL.Query()
	for name, value := range n.query {
		query.Del(name)
		if value != "" {
			query.Set(name, value)
		}
	}
	req.URL.RawQuery = query.Encode()
	return req
}

// own returns the transport of a request that waits for no other; nil if it is to take turns.
func (n *connections) own(req *http.Request) *http.Transport {
	path := req.URL.Path
	switch {
	case req.URL.Query().Has("index"):
		return n.brief
	case strings.HasPrefix(path, "/v1/session/"), strings.HasPrefix(path, "/v1/agent/"), confirms(req.Context()):
		return n.session
	}
	return nil
}

// body tells when a read of it fails, and when it is closed.
type body struct {
	io.ReadCloser
	failed, done func()
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		b.failed()
	}
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.done()
	return err
}

// closeIdle closes the connections that are idle.
func (n *connections) closeIdle() {
	for _, t := range []*http.Transport{n.session, n.steady, n.brief} {
		t.CloseIdleConnections()
	}
}

// confirmingKey is the key of the mark in a context that its requests confirm the watches.
type confirmingKey struct{}

// Confirming returns a context whose requests confirm the watches.
func Confirming(ctx context.Context) context.Context {
	return context.WithValue(ctx, confirmingKey{}, true)
}

func confirms(ctx context.Context) bool { return ctx.Value(confirmingKey{}) != nil }

// Within returns a context for one request. It ends with context.DeadlineExceeded when the request has had no answer for
// the limit since it was sent: to open a connection takes time of its own.
func Within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		time.AfterFunc(limit, func() { cancel(context.DeadlineExceeded) })
	}}), func() { cancel(nil) }
}

// Warm opens the connections that a session is opened and confirmed over, by requests that agents answer by themselves.
// So round trips that make connections take nothing off the lease. What goes wrong is seen by the next request too; an
// agent that does not answer is left (TestFirstAgentIsSilent).
func (c *Client) Warm(ctx context.Context) {
	if c.conns == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, max(RequestLimit/2, c.config.TTL))
	defer cancel()
	var opened sync.WaitGroup
	for range together {
		opened.Go(func() { c.conns.ping(ctx, "/v1/session/info/") })
	}
	opened.Wait()
}

// Ready returns an error if the servers have no leader, or the agent does not answer. It sends one request.
func (c *Client) Ready(ctx context.Context) error {
	leader, err := c.Status().LeaderWithQueryOptions(c.ReadOptions(ctx))
	if err = c.Explain(err); err != nil && !IsOdd(err) && adapter.Uncertain(err) {
		return err
	}
	if err == nil && leader == "" {
		return fmt.Errorf("%w: the servers have no leader", store.ErrUnavailable)
	}
	return nil
}

// ping sends a request that changes nothing.
func (n *connections) ping(ctx context.Context, path string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodOptions, n.base.JoinPath(path).String(), http.NoBody)
	if err != nil {
		return
	}
	resp, err := n.RoundTrip(req)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16))
	_ = resp.Body.Close()
}
