package consul

import (
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/hashicorp/consul/api"
)

// lines carries the requests of a client of the store's own. An agent takes 200 connections from an address, unless it
// was told otherwise, and speaks HTTP/1.1 without TLS: a request that waits for a change holds a connection.
//
// So one connection is kept for what is sent now and again, so that it need not be opened first. What comes while that
// is busy has connections which are closed soon afterwards, a few at a time; and so has each blocking query: once it
// has ended and no other follows, nothing of it is left, neither here nor at the agent.
type lines struct {
	steady  *http.Transport // keeps one connection
	single  *http.Transport // keeps those it has for a moment only
	turn    chan struct{}   // has room for the one who uses steady
	extra   chan struct{}   // has room for those who use single at the same time, blocking queries apart
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
	l := &lines{
		steady: transport(), single: transport(), turn: make(chan struct{}, 1), extra: make(chan struct{}, burst),
		token: c.Token, ns: c.Namespace, section: c.Partition,
	}
	l.steady.MaxConnsPerHost = 1
	l.single.IdleConnTimeout = linger
	l.single.MaxIdleConnsPerHost = places + burst
	return l
}

// newClient returns a client that uses the lines. The library completes what its configuration leaves out from the
// environment: what it may find there is given a value here, and replaced or removed in each request.
func newClient(l *lines, c Config) (*api.Client, error) {
	scheme := "http"
	if c.TLS != nil {
		scheme = "https"
	}
	const replaced = "-"
	return api.NewClient(&api.Config{
		Address: c.Addresses[0], Scheme: scheme, HttpClient: &http.Client{Transport: l},
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
	select {
	case l.turn <- struct{}{}:
		return send(l.steady, req, l.turn)
	default:
	}
	if urgent(req) {
		return l.single.RoundTrip(req)
	}
	select {
	case l.extra <- struct{}{}:
		return send(l.single, req, l.extra)
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
}

// urgent reports whether a request confirms the session. It waits for no other; there is one at a time.
func urgent(req *http.Request) bool {
	path := req.URL.Path
	return strings.HasPrefix(path, "/v1/session/") || strings.HasPrefix(path, "/v1/agent/check/")
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
	l.steady.CloseIdleConnections()
	l.single.CloseIdleConnections()
}
