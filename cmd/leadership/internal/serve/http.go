package serve

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-leadership/leadership/internal/readonly"
	"github.com/go-leadership/leadership/internal/visible"
	"github.com/go-leadership/leadership/operate"
)

// policy keeps a page from loading anything but its own script and style, whatever a candidate's value is.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

//go:embed page.html page.css page.js
var files embed.FS

// ServeHTTP implements http.Handler. http.ServeMux would answer some paths with redirects, which balancers take for
// success.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !readonly.Allow(w, r) {
		return
	}
	if !s.expects(r.Host) {
		http.Error(w, "this server is not known by the name "+strconv.Quote(r.Host)+": use an IP address, or give the name by --listen; "+
			"a proxy sets the header Host to localhost", http.StatusMisdirectedRequest)
		return
	}
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Referrer-Policy", "no-referrer")
	switch path := r.URL.Path; path {
	case "/":
		s.page(w, r)
	case "/page.css", "/page.js":
		http.ServeFileFS(w, r, files, path[1:])
	case "/elections":
		s.listed(w, r)
	case "/events":
		s.events(w, r)
	case "/metrics":
		s.look(r)
		s.metrics.Serve(w)
	default:
		name, elections := strings.CutPrefix(path, "/elections/")
		name, leader := strings.CutSuffix(name, "/leader")
		if !elections || !leader {
			http.NotFound(w, r)
			return
		}
		s.leader(w, r, name)
	}
}

// expects reports whether a request is meant for this server, by its header Host. A page of another site may let its own name
// resolve to this server's address, and then read what the visitor's browser can reach (DNS rebinding). An address, the name
// of --listen, and names that are not in the public DNS can't be of such a page. Old clients send no name, browsers always do.
func (s *Server) expects(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil || host == "" || strings.EqualFold(host, s.Host) {
		return true
	}
	labels := strings.Split(strings.ToLower(host), ".")
	return len(labels) == 1 || slices.Contains([]string{"localhost", "local", "internal"}, labels[len(labels)-1])
}

// look has the queues read that were not read for a while, and waits for that, for a second at most.
func (s *Server) look(r *http.Request) {
	s.mu.Lock()
	s.asked = time.Now()
	settled := s.settled
	s.mu.Unlock()
	s.wakeUp()
	select {
	case <-settled:
	case <-time.After(time.Second):
	case <-r.Context().Done():
	case <-s.ctx.Done():
	}
}

// page serves the page.
func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	s.look(r)
	now := time.Now()
	s.mu.Lock()
	data := pageData{
		Model: s.refresh(now), Store: s.Address, TTL: Short(s.Store.TTL()), Bound: Short(s.Bound), Now: momentOf(now),
	}
	data.Version = s.published.seq
	for _, c := range slices.Backward(s.changes) {
		data.Changes = append(data.Changes, rowOf(c))
	}
	s.mu.Unlock()
	var text bytes.Buffer
	if err := pages.Execute(&text, data); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(text.Bytes())
}

// pageData is what the page's template is about.
type pageData struct {
	Model
	Version           uint64
	Store, TTL, Bound string
	Now               Moment
	Changes           []ChangeRow // the latest first
}

// Title returns the title of the page.
func (d pageData) Title() string {
	switch n := len(d.Problems) + d.Hidden; n {
	case 0:
		return d.Store
	case 1:
		return "1 problem · " + d.Store
	default:
		return fmt.Sprintf("%d problems · %s", n, d.Store)
	}
}

// Few reports whether the page has room for all queues.
func (d pageData) Few() bool { return len(d.Rows) <= 10 }

// Since returns how long ago a moment was when the page was made. The script goes on counting.
func (d pageData) Since(m Moment, atLeast bool) template.HTML {
	text := Short(max(0, time.Duration(d.Now-m)*time.Millisecond).Truncate(time.Second))
	if atLeast {
		text = "≥ " + text
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s" data-since="%d">%s</time>`, d.ISO(m), m, text))
}

// At returns a moment for people.
func (d pageData) At(m Moment) string { return m.time().Format(time.DateTime) }

// ISO returns a moment for programs.
func (d pageData) ISO(m Moment) string { return m.time().UTC().Format("2006-01-02T15:04:05.000Z") }

var pages = template.Must(template.ParseFS(files, "page.html"))

// electionJSON is an election in JSON.
type electionJSON struct {
	Election string       `json:"election"`
	State    string       `json:"state"` // as on the page
	Level    Level        `json:"level"`
	Leader   *leaderJSON  `json:"leader"`         // null: there is none
	Since    time.Time    `json:"since,omitzero"` // since when this server has seen that
	AtLeast  bool         `json:"since_at_least"` // it might be so for longer
	AsOf     time.Time    `json:"as_of,omitzero"` // as of when that is right
	Fresh    bool         `json:"fresh"`          // that is no longer ago than the TTL
	Changes  int          `json:"changes_in_the_last_hour"`
	Ballots  []ballotJSON `json:"ballots"` // null: never read
	Read     time.Time    `json:"ballots_as_of,omitzero"`
	Problems []Problem    `json:"problems"`
}

type leaderJSON struct {
	visible.JSON
	Revision string `json:"revision"` // text, as tokens
}

type ballotJSON struct {
	Position int    `json:"position"` // 1 is the first in line
	Token    string `json:"token"`    // text, since JavaScript rounds above 2^53
	visible.JSON
	Asked   bool `json:"asked_to_resign,omitempty"`
	Foreign bool `json:"foreign,omitempty"`
	Holds   bool `json:"holds,omitempty"` // the value has the reason
}

// listed serves all elections in JSON.
func (s *Server) listed(w http.ResponseWriter, r *http.Request) {
	s.look(r)
	now := time.Now()
	s.mu.Lock()
	snap := s.snapshot(now)
	s.mu.Unlock()
	slices.SortFunc(snap.Elections, func(a, b Election) int { return strings.Compare(a.Name, b.Name) })
	list := []electionJSON{}
	for _, e := range snap.Elections {
		list = append(list, e.json(snap, now))
	}
	readonly.JSON(w, http.StatusOK, list)
}

func (e *Election) json(s Snapshot, now time.Time) electionJSON {
	problems := e.problems(s, now)
	row := e.row(problems, now)
	j := electionJSON{
		Election: e.Name, State: row.State, Level: row.Level, Since: e.Since, AtLeast: e.AtLeast, AsOf: e.AsOf, Fresh: e.Fresh,
		Changes: e.Changes, Read: e.Queue.Read, Problems: append([]Problem{}, problems...),
	}
	if e.Leader.Revision != 0 {
		j.Leader = &leaderJSON{visible.InJSON(e.Leader.Value), strconv.FormatUint(e.Leader.Revision, 10)}
	}
	if !e.Queue.Read.IsZero() {
		j.Ballots = []ballotJSON{}
	}
	for i, b := range e.Queue.Ballots {
		reason, holds := operate.Held(b.Value)
		if holds {
			b.Value = reason
		}
		j.Ballots = append(j.Ballots, ballotJSON{i + 1, strconv.FormatUint(b.Token, 10), visible.InJSON(b.Value), b.Asked, b.Foreign, holds})
	}
	return j
}

// leader serves /elections/NAME/leader?value=VALUE, for balancers in front of programs that have no such handler: 200
// if that is the acknowledged leader as of no longer ago than the TTL. A leader of which nothing was heard for a TTL
// might lead no more.
func (s *Server) leader(w http.ResponseWriter, r *http.Request, name string) {
	s.mu.Lock()
	e := s.elections[name]
	s.mu.Unlock()
	if e == nil {
		http.Error(w, "this election is not followed", http.StatusNotFound)
		return
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || len(query) != 1 || len(query["value"]) != 1 {
		http.Error(w, "the query is not one value, such as value=dbhost1:5432", http.StatusBadRequest)
		return
	}
	leader, led := e.follower.Leader()
	if !led || leader.Value != query.Get("value") || !e.follower.Fresh() || e.follower.Err() != nil {
		http.Error(w, "not the leader, or not known to be", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("the leader\n"))
}
