package consul

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/hashicorp/consul/api"
)

// lines carries the requests of a client of the store's own. An agent takes 200 connections from an address, unless it
// was told otherwise, and speaks HTTP/1.1 without TLS: a request that waits for a change holds a connection.
//
// What confirms the session goes over connections of its own, which are kept: what is sent at once need not wait, nor a
// connection be opened first, which takes a round trip at least. Up to three are used at a time, and more if answers
// take longer than TTL/4. What confirms the watches has one of its own, too.
//
// One connection is kept for what else is sent now and again, so that it need not be opened first. What comes while
// that is busy has connections which are closed soon afterwards, a few at a time; and so has each blocking query: once
// it has ended and no other follows, nothing of it is left, neither here nor at the agent.
type lines struct {
	kept    *http.Transport // keeps those of what confirms the session
	looks   *http.Transport // keeps that of what confirms the watches
	steady  *http.Transport // keeps one connection
	single  *http.Transport // keeps those it has for a moment only
	turn    chan struct{}   // has room for the one who uses steady
	extra   chan struct{}   // has room for those who use single at the same time, blocking queries apart
	base    *url.URL        // of the requests: the dialer knows the agents
	token   string
	ns      string
	section string // the partition
}

// burst is how many requests are under way besides the one on the kept connection.
const burst = 16

func newLines(d *dialer, c Config) *lines {
	transport := func() *http.Transport {
		t := &http.Transport{DialContext: d.open, DisableCompression: true}
		if c.TLS != nil {
			t.DialTLSContext = d.open
		}
		return t
	}
	scheme := "http"
	if c.TLS != nil {
		scheme = "https"
	}
	l := &lines{
		base: &url.URL{Scheme: scheme, Host: c.Addresses[0]},
		kept: transport(), looks: transport(), steady: transport(), single: transport(), turn: make(chan struct{}, 1), extra: make(chan struct{}, burst),
		token: c.Token, ns: c.Namespace, section: c.Partition,
	}
	l.kept.MaxIdleConnsPerHost = 2 * confirming
	l.kept.IdleConnTimeout = max(c.TTL, leastSessionTTL/2)
	l.steady.MaxConnsPerHost = 1
	l.single.IdleConnTimeout = linger
	l.single.MaxIdleConnsPerHost = places + burst
	return l
}

// newClient returns a client that uses the lines. The library completes what its configuration leaves out from the
// environment: what it may find there is given a value here, and replaced or removed in each request.
func newClient(l *lines, c Config) (*api.Client, error) {
	const replaced = "-"
	return api.NewClient(&api.Config{
		Address: l.base.Host, Scheme: l.base.Scheme, HttpClient: &http.Client{Transport: l},
		Token: replaced, Namespace: replaced, Partition: replaced,
	})
}

// RoundTrip implements http.RoundTripper.
func (l *lines) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Del("X-Consul-Token")
	if l.token != "" {
		req.Header.Set("X-Consul-Token", l.token)
	}
	query := req.URL.Query()
	for name, value := range map[string]string{"ns": l.ns, "partition": l.section} {
		query.Del(name)
		if value != "" {
			query.Set(name, value)
		}
	}
	req.URL.RawQuery = query.Encode()
	if query.Has("index") {
		return l.single.RoundTrip(req)
	}
	if urgent(req) {
		return l.kept.RoundTrip(req)
	}
	if isLook(req.Context()) {
		return l.looks.RoundTrip(req)
	}
	select {
	case l.turn <- struct{}{}:
		return send(l.steady, req, l.turn)
	default:
	}
	select {
	case l.extra <- struct{}{}:
		return send(l.single, req, l.extra)
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
}

// lookKey is the key of the mark in a context that its requests confirm the watches.
type lookKey struct{}

func look(ctx context.Context) context.Context { return context.WithValue(ctx, lookKey{}, true) }

func isLook(ctx context.Context) bool { return ctx.Value(lookKey{}) != nil }

// urgent reports whether a request opens or confirms the session, or ends it. It waits for no other.
func urgent(req *http.Request) bool {
	path := req.URL.Path
	return strings.HasPrefix(path, "/v1/session/") || strings.HasPrefix(path, "/v1/agent/")
}

// confirming is how many requests a confirmation sends at once, at most.
const confirming = 3

// warm opens the connections that a session is opened and confirmed over, by requests that agents answer by themselves.
// So round trips that make connections take nothing off the lease. What goes wrong is seen by the next request too; an
// agent that does not answer is left.
func (d *driver) warm(ctx context.Context) {
	if d.lines == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, max(requestLimit/2, d.config.TTL))
	defer cancel()
	var opened sync.WaitGroup
	for range confirming {
		opened.Go(func() { d.lines.ping(ctx, "/v1/agent/self") })
	}
	opened.Go(func() { d.lines.ping(ctx, "/v1/status/leader") })
	opened.Wait()
	if ctx.Err() != nil {
		d.dialer.silent()
	}
}

// ping sends a request that changes nothing.
func (l *lines) ping(ctx context.Context, path string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodOptions, l.base.JoinPath(path).String(), http.NoBody)
	if err != nil {
		return
	}
	resp, err := l.RoundTrip(req)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16))
	_ = resp.Body.Close()
}

// send sends a request and takes its place out of turns once it has been answered.
func send(t *http.Transport, req *http.Request, turns <-chan struct{}) (*http.Response, error) {
	resp, err := t.RoundTrip(req)
	if err != nil {
		<-turns
		return nil, err
	}
	resp.Body = &body{resp.Body, sync.OnceFunc(func() { <-turns })}
	return resp, nil
}

// body calls done when it is closed.
type body struct {
	io.ReadCloser
	done func()
}

// Close implements io.Closer.
func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.done()
	return err
}

// close closes the connections that are idle.
func (l *lines) close() {
	l.kept.CloseIdleConnections()
	l.looks.CloseIdleConnections()
	l.steady.CloseIdleConnections()
	l.single.CloseIdleConnections()
}
