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
// Each kind of request that confirms the session has a connection of its own. It is opened before the session, and each
// confirmation uses it. So no request waits for one of another kind, or opens a connection first, which takes a round
// trip at least. A pool for all of them would open fewer connections while answers come at once. A second connection is
// kept for each kind if answers take longer than TTL/4. What confirms the watches has one connection, too.
//
// One connection is kept for what else is sent now and again, so that it need not be opened first. What comes while
// that is busy has connections which are closed soon afterwards, a few at a time; and so has each blocking query: once
// it has ended and no other follows, nothing of it is left, neither here nor at the agent.
type lines struct {
	passes  *http.Transport // keeps that of the passes of the check
	proofs  *http.Transport // keeps that of the reads of the session
	session *http.Transport // keeps that of the renewals, and of what else opens and ends the session
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
		base:   &url.URL{Scheme: scheme, Host: c.Addresses[0]},
		passes: transport(), proofs: transport(), session: transport(), looks: transport(), steady: transport(), single: transport(),
		turn: make(chan struct{}, 1), extra: make(chan struct{}, burst), token: c.Token, ns: c.Namespace, section: c.Partition,
	}
	for _, t := range []*http.Transport{l.passes, l.proofs, l.session} {
		t.MaxIdleConnsPerHost = 2
		t.IdleConnTimeout = max(c.TTL, leastSessionTTL/2)
	}
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
	req = l.complete(req)
	if t := l.own(req); t != nil {
		return t.RoundTrip(req)
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

// complete returns a request with the store's settings in place of those of the library.
func (l *lines) complete(req *http.Request) *http.Request {
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
	return req
}

// own returns the transport of a request that waits for no other; nil if it is to take turns.
func (l *lines) own(req *http.Request) *http.Transport {
	path := req.URL.Path
	switch {
	case req.URL.Query().Has("index"):
		return l.single
	case strings.HasPrefix(path, "/v1/agent/check/"):
		return l.passes
	case strings.HasPrefix(path, "/v1/session/info/"):
		return l.proofs
	case strings.HasPrefix(path, "/v1/session/"), strings.HasPrefix(path, "/v1/agent/"):
		return l.session
	case isLook(req.Context()):
		return l.looks
	}
	return nil
}

// lookKey is the key of the mark in a context that its requests confirm the watches.
type lookKey struct{}

func look(ctx context.Context) context.Context { return context.WithValue(ctx, lookKey{}, true) }

func isLook(ctx context.Context) bool { return ctx.Value(lookKey{}) != nil }

// warm opens the connections that a session is opened and confirmed over, by requests that agents answer by themselves.
// So round trips that make connections take nothing off the lease. What goes wrong is seen by the next request too; an
// agent that does not answer is left.
func (d *driver) warm(ctx context.Context) {
	if d.lines == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, max(requestLimit/2, d.config.TTL))
	defer cancel()
	paths := []string{"/v1/session/info/", "/v1/session/renew/", "/v1/status/leader"}
	if d.config.checked() {
		paths = append(paths, "/v1/agent/check/update/")
	}
	var opened sync.WaitGroup
	for _, path := range paths {
		opened.Go(func() { d.lines.ping(ctx, path) })
	}
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
	for _, t := range []*http.Transport{l.passes, l.proofs, l.session, l.looks, l.steady, l.single} {
		t.CloseIdleConnections()
	}
}
