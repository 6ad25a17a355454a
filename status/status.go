// Package status serves over HTTP what a process's candidates and followers are doing: for load balancers, for probes, for
// people, and for Prometheus. It sends nothing to the store, and no path changes anything.
//
//	h := status.New(status.Config{})
//	opts := &leadership.CandidateOptions{Events: h.Event}
//	c, err := leadership.NewCandidate(st, "database/primary", "dbhost2:4567", opts)
//	h.Candidate(c)
//	go http.ListenAndServe("127.0.0.1:8008", h)
//
// # Paths
//
//	/leader, /leader/ELECTION      200 while the candidate leads and has acknowledged, else 503
//	/follower, /follower/ELECTION  200 while its ballot waits, else 503
//	/readyz                        200 while the process takes part, or has and will again, else 503
//	/livez                         503 if the work of a term that is over does not stop, else 200
//	/healthz                       503 if someone should look, with the reasons in the body, else 200
//	/status                        all candidates and followers, in JSON
//	/metrics                       in the text format of Prometheus
//
// The methods are GET, HEAD and OPTIONS: what a balancer uses by default. Answers are never redirects: HAProxy takes them
// for success. A name may be left out if there is one election. An election that the handler does not know is 404, and 503
// before it knows any.
//
// # /leader for balancers
//
// A balancer goes on sending for as long as its last answer counts. With /leader?margin=2s the answer is 200 only while at
// least 2 s of the lease are left. The margin is the interval between two checks, the time-out of a check's connection, and
// twice the time-out of its answer: the last 200 might take that long, and the check after it. If one failed check takes a
// server out, the balancer then knows that a leader is out before the lease is over. A margin from a third of the TTL on
// is refused with 400: a healthy leader might have no more left. Where a round trip to the store takes more than a 24th of
// the TTL it might have less, a sixth at a round trip of an eighth.
//
// # /readyz and /livez for orchestrators
//
// /readyz does not follow leadership: a rollout would wait for ever for the second replica to be ready. It does not follow
// the store either, once the store has worked: an outage would take all replicas out of service at once. /livez fails only
// where a restart helps: work that ignores the end of its term keeps all other candidates waiting.
package status

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/metrics"
	"github.com/go-leadership/leadership/internal/readonly"
	"github.com/go-leadership/leadership/internal/visible"
)

// Config are the settings of a handler. The zero value of each field stands for its default.
type Config struct {
	// Ready is the program's own condition for /readyz. It is called for each request, with its context. Default: none.
	Ready func(context.Context) error
	// WedgedAfter is how long work may go on after the end of its term before /livez fails. Default: 10 TTL, at least 1 min.
	WedgedAfter time.Duration
}

// Handler is the handler. Its methods may be called from any number of goroutines. New makes one.
type Handler struct {
	config Config
	set    metrics.Set
}

// New returns a handler that knows of no candidate and no follower yet.
func New(config Config) *Handler {
	return &Handler{config: config}
}

// Candidate adds a candidate. It takes the place of an earlier one in the same election.
func (h *Handler) Candidate(c *leadership.Candidate) { h.set.Candidate(c) }

// Follower adds a follower, which the program starts. It takes the place of an earlier one of the same election.
func (h *Handler) Follower(f *leadership.Follower) { h.set.Follower(f) }

// Event counts an event for /metrics. Make it the Events of all candidates and followers that the handler knows, or call it
// in yours.
func (h *Handler) Event(e leadership.Event) { h.set.Event(e) }

// Renewed returns a function for store.Options.Renewed that measures renewals for /metrics. The name is the label store:
// the address without a password.
func (h *Handler) Renewed(store string) func(latency time.Duration) { return h.set.Renewed(store) }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !readonly.Allow(w, r) {
		return
	}
	path, election, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/") // http.ServeMux answers some paths with redirects
	switch {
	case path == "leader":
		h.leader(w, r, election)
	case path == "follower":
		h.follower(w, election)
	case election != "":
		http.NotFound(w, r)
	case path == "readyz":
		h.readyz(w, r)
	case path == "livez":
		h.livez(w)
	case path == "healthz":
		h.healthz(w)
	case path == "status":
		h.status(w)
	case path == "metrics":
		h.set.Serve(w)
	default:
		http.NotFound(w, r)
	}
}

// leader serves /leader.
func (h *Handler) leader(w http.ResponseWriter, r *http.Request, election string) {
	h.serve(w, election, func(s leadership.Status) (bool, error) {
		margin, err := marginOf(r.URL.RawQuery)
		if err != nil {
			return false, err
		}
		if margin > 0 && margin >= s.TTL/3 {
			return false, fmt.Errorf("margin %v is a third of the TTL of %v or more: a healthy leader might have no more left; "+
				"check more often, or make the TTL longer", margin, s.TTL)
		}
		return s.State == leadership.Leading && s.Remaining >= margin, nil
	})
}

// marginOf returns the margin of a query, 0 if it has none. It refuses all else that it can't read: a margin that is left out
// by mistake would let a balancer send after the lease.
func marginOf(query string) (margin time.Duration, err error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return 0, err
	}
	for name, list := range values {
		if name != "margin" || len(list) > 1 {
			return 0, errors.New("the query is not one margin, such as margin=2s")
		}
		if list[0] == "" {
			continue
		}
		if margin, err = time.ParseDuration(list[0]); err != nil || margin < 0 {
			return 0, fmt.Errorf("margin %q is no duration such as 2s", list[0])
		}
	}
	return margin, nil
}

// follower serves /follower.
func (h *Handler) follower(w http.ResponseWriter, election string) {
	h.serve(w, election, func(s leadership.Status) (bool, error) { return s.State == leadership.Waiting, nil })
}

// serve answers a question about the candidate of one election.
func (h *Handler) serve(w http.ResponseWriter, name string, holds func(leadership.Status) (bool, error)) {
	names := h.set.Elections()
	switch {
	case len(names) == 0: // the program has not begun
		http.Error(w, "there is no candidate and no follower yet", http.StatusServiceUnavailable)
		return
	case name != "":
	case len(names) == 1:
		name = names[0]
	default:
		http.Error(w, "which election? "+strings.Join(names, ", "), http.StatusBadRequest)
		return
	}
	c, f := h.set.Of(name)
	if c == nil && f == nil {
		http.Error(w, "no candidate stands here in this election", http.StatusNotFound)
		return
	}
	code, body := http.StatusServiceUnavailable, electionJSON{Election: name, Leader: leaderOf(f)}
	if c != nil {
		s := c.Status()
		ok, err := holds(s)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if ok {
			code = http.StatusOK
		}
		body.Candidate = candidateOf(c.Value(), s)
		w.Header().Set("Leadership-State", s.State.String())
		w.Header().Set("Leadership-Token", strconv.FormatUint(s.Token, 10))
	}
	readonly.JSON(w, code, body)
}

// status serves /status.
func (h *Handler) status(w http.ResponseWriter) {
	all := []electionJSON{}
	for _, name := range h.set.Elections() {
		c, f := h.set.Of(name)
		body := electionJSON{Election: name, Leader: leaderOf(f)}
		if c != nil {
			body.Candidate = candidateOf(c.Value(), c.Status())
		}
		all = append(all, body)
	}
	readonly.JSON(w, http.StatusOK, all)
}

// electionJSON is what is known here of an election.
type electionJSON struct {
	Election  string         `json:"election"`
	Candidate *candidateJSON `json:"candidate,omitempty"`
	Leader    *leaderJSON    `json:"leader,omitempty"` // what the follower knows, if there is one
}

// candidateJSON is the status of a candidate.
type candidateJSON struct {
	visible.JSON
	State        string    `json:"state"`
	Since        time.Time `json:"since"`
	Token        string    `json:"token,omitempty"` // text, since JavaScript rounds above 2^53
	Acknowledged bool      `json:"acknowledged"`
	Remaining    float64   `json:"remaining_seconds"`
	TTL          float64   `json:"ttl_seconds"`
	Overdue      bool      `json:"overdue"`
	Requested    bool      `json:"resignation_requested"`
	Unfit        string    `json:"unfit,omitempty"` // why the last check of its fitness has failed
	LastError    string    `json:"last_error,omitempty"`
}

func candidateOf(value string, s leadership.Status) *candidateJSON {
	j := &candidateJSON{
		JSON: visible.InJSON(value), State: s.State.String(), Since: s.Since, Acknowledged: s.State == leadership.Leading,
		Remaining: s.Remaining.Seconds(), TTL: s.TTL.Seconds(), Overdue: s.Overdue, Requested: s.Requested,
	}
	if s.Token != 0 {
		j.Token = strconv.FormatUint(s.Token, 10)
	}
	j.Unfit, j.LastError = textOf(s.Unfit), textOf(s.LastError)
	return j
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return strings.ToValidUTF8(err.Error(), "\ufffd")
}

// leaderJSON is the acknowledged leader, as a follower knows it.
type leaderJSON struct {
	visible.JSON
	Revision string    `json:"revision,omitempty"` // text, as token; none: there is no leader
	AsOf     time.Time `json:"as_of,omitzero"`
	Fresh    bool      `json:"fresh"`
}

func leaderOf(f *leadership.Follower) *leaderJSON {
	if f == nil {
		return nil
	}
	leader, led := f.Leader()
	j := &leaderJSON{JSON: visible.InJSON(leader.Value), AsOf: f.AsOf(), Fresh: f.Fresh()}
	if led {
		j.Revision = strconv.FormatUint(leader.Revision, 10)
	}
	return j
}
