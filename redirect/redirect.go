// Package redirect is an HTTP handler for a service of many processes, of which the leader answers.
//
//	h, err := redirect.New(candidate, follower, app)
//	go http.Serve(listener, h)
//	err = candidate.Run(ctx, leadership.Lead)
//
// The value of each candidate is the URL by which clients reach its process, such as http://10.0.0.7:8080.
//
// # What a client gets
//
//   - The leader answers once it has acknowledged. The context of the request ends with the term.
//   - Any other process answers with status 307 and the same path and query at the leader's URL. The client repeats the method
//     and the body. Many clients then leave out credentials, since the host is another one.
//   - Without a leader, and while the process takes over or winds down, the status is 503, with Retry-After: 1.
//   - A request for a WebSocket gets 501, on the leader too: such a connection outlives the request, and so the term.
//
// Each request on a connection that is kept alive is decided anew.
//
// There are no loops, even while two processes disagree on who leads. A process that has led redirects only to a leader that has
// acknowledged after it. So each redirect leads to a leader with a later acknowledgement than the redirect before.
package redirect

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-leadership/leadership"
)

// New returns a handler that calls next while the candidate leads, and otherwise redirects to the leader that the follower
// knows. Both are of the same election; the caller runs the candidate, and stops the follower. The value of the candidate is
// the absolute URL of this process, of which the scheme, the host and the port count, or New returns an error.
func New(c *leadership.Candidate, f *leadership.Follower, next http.Handler) (http.Handler, error) {
	if _, err := base(c.Value()); err != nil {
		return nil, err
	}
	if c.Election() != f.Election() {
		return nil, fmt.Errorf("redirect: the candidate is of election %q, and the follower of %q", c.Election(), f.Election())
	}
	f.Start()
	return &handler{c, f, next}, nil
}

type handler struct {
	candidate *leadership.Candidate
	follower  *leadership.Follower
	next      http.Handler
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect || strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		http.Error(w, "this service upgrades no connections", http.StatusNotImplemented)
		return
	}
	if term, leads := h.candidate.Term(); leads && term.Acknowledged() {
		ctx, cancel := term.Bind(r.Context())
		defer cancel()
		h.next.ServeHTTP(w, r.WithContext(ctx))
		return
	}
	to, err := h.leader()
	if err != nil {
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	target := *r.URL // without what a client has put into it, as for a proxy
	target.Scheme, target.Host, target.User, target.Opaque = to.Scheme, to.Host, nil, ""
	http.Redirect(w, r, target.String(), http.StatusTemporaryRedirect)
}

var errNoLeader = errors.New("no leader at the moment")

// leader returns the URL of another process that leads. What is read first is never newer than what is read after it.
func (h *handler) leader() (*url.URL, error) {
	s, asOf := h.candidate.Status(), h.follower.AsOf()
	leader, ok := h.follower.Leader()
	switch {
	case !ok, leader.Value == h.candidate.Value(), h.follower.Err() != nil:
		return nil, errNoLeader
	case s.State == leadership.TakingOver, s.State == leadership.Leading, s.State == leadership.WindingDown:
		return nil, errNoLeader // others might redirect to this process
	case (s.Revision == 0 || leader.Revision <= s.Revision) && !asOf.After(s.Led):
		return nil, errNoLeader // the leader might have acknowledged before this process did
	}
	return base(leader.Value)
}

// base returns the URL of a process.
func base(value string) (*url.URL, error) {
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("redirect: the value of a candidate is not an absolute URL for HTTP: %q", value)
	}
	return u, nil
}
