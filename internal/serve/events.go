package serve

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The rates of event streams.
const (
	mostStreams  = 200
	publishEvery = 250 * time.Millisecond // changes that come faster are sent together
	pingEvery    = 10 * time.Second       // so that a browser notices that the server has gone
	writeTimeout = 10 * time.Second       // a browser that takes longer to read loses its stream
)

// published is the page as the browsers have it, or will soon. Each part has the number of its last change, so a stream
// sends what has a higher number than its browser has seen, however long ago that was. The server's mu guards it.
type published struct {
	seq      uint64
	model    Model
	problems part // with the summary
	rows     map[string]part
	gone     map[string]uint64 // elections that are shown no more, and since when

	streams int
	wake    chan struct{} // has one if something might have changed
	changed chan struct{} // closed and replaced when seq has grown
}

// part is a part of the page in JSON.
type part struct {
	seq  uint64
	text []byte
}

func (p *published) begin() {
	p.rows, p.gone = map[string]part{}, map[string]uint64{}
	p.wake, p.changed = make(chan struct{}, 1), make(chan struct{})
}

// next returns the number of a change.
func (p *published) next() uint64 {
	p.seq++
	p.dirty()
	return p.seq
}

// dirty has the page published again soon.
func (p *published) dirty() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// publish publishes the page for the streams, until the server is closed: soon after a change, and every second, since
// time alone makes a problem worse.
func (s *Server) publish() {
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for s.pause(publishEvery) {
		select {
		case <-s.published.wake:
		case <-ticks.C:
		case <-s.ctx.Done():
		}
		s.mu.Lock()
		if s.published.streams > 0 {
			s.refresh(time.Now())
		}
		s.mu.Unlock()
	}
}

// changed has the page published again soon.
func (s *Server) changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.published.dirty()
}

// refresh computes the page, and numbers what has changed. The caller holds mu.
func (s *Server) refresh(now time.Time) {
	p := &s.published
	before := p.seq
	p.model = NewModel(s.snapshot(now), now)
	p.problems = p.renew(p.problems, p.model)
	shown := map[string]bool{}
	for _, row := range p.model.Rows {
		shown[row.Name] = true
		p.rows[row.Name] = p.renew(p.rows[row.Name], row)
		delete(p.gone, row.Name)
	}
	for name := range p.rows {
		if !shown[name] {
			delete(p.rows, name)
			p.seq++
			p.gone[name] = p.seq
		}
	}
	if n := len(s.changes); p.seq > before || n > 0 && s.changes[n-1].seq > before {
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

// renew returns a part as it is now, with another number if it has changed.
func (p *published) renew(old part, now any) part {
	text, err := json.Marshal(now)
	if err != nil || bytes.Equal(text, old.text) { // these types have no values that JSON has not
		return old
	}
	p.seq++
	return part{p.seq, text}
}

// update is what an event tells a browser.
type update struct {
	All     bool              `json:"all,omitempty"` // forget what you have: it is of another server
	Now     Moment            `json:"now"`
	Page    json.RawMessage   `json:"page,omitempty"` // the problems and the summary
	Rows    []json.RawMessage `json:"rows,omitempty"`
	Gone    []string          `json:"gone,omitempty"`
	Changes []ChangeRow       `json:"changes,omitempty"` // the latest last
}

// since returns what has changed on the page since a number, as an event, and the channel that tells of the next
// change. Nothing might have changed: the event then says that the server lives.
func (s *Server) since(seq uint64, all bool) (event []byte, last uint64, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.published
	u := update{All: all, Now: momentOf(time.Now())}
	if p.problems.seq > seq {
		u.Page = p.problems.text
	}
	for _, row := range p.rows {
		if row.seq > seq {
			u.Rows = append(u.Rows, row.text)
		}
	}
	for name, gone := range p.gone {
		if gone > seq {
			u.Gone = append(u.Gone, name)
		}
	}
	for _, c := range slices.Backward(s.changes) {
		if c.seq <= seq {
			break
		}
		u.Changes = append(u.Changes, rowOf(c))
	}
	slices.Reverse(u.Changes)
	text, _ := json.Marshal(u) // as in renew
	return fmt.Appendf(nil, "id: %s.%d\ndata: %s\n\n", s.id, p.seq, text), p.seq, p.changed
}

// version is the number of the page as it is, for the browser. The caller holds mu.
func (s *Server) version() string { return s.id + "." + strconv.FormatUint(s.published.seq, 10) }

// events serves the stream of events: one for all elections, since a browser has six connections to a server.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		w.Header().Set("Retry-After", "5")
		http.Error(w, "too many browsers look, or the server ends", http.StatusServiceUnavailable)
		return
	}
	defer s.leave()
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{}) // that of the server would end the stream; recorders of tests have none
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx sends events at once then
	if r.Method != http.MethodGet {
		return
	}
	known := r.Header.Get("Last-Event-ID")
	if known == "" {
		known = r.URL.Query().Get("since")
	}
	id, number, _ := strings.Cut(known, ".")
	seq, err := strconv.ParseUint(number, 10, 64)
	all := id != s.id || err != nil
	if all {
		seq = 0
	}
	pings := time.NewTicker(pingEvery)
	defer pings.Stop()
	for event := []byte("retry: 2000\n"); ; event = nil {
		data, last, changed := s.since(seq, all)
		_ = out.SetWriteDeadline(time.Now().Add(writeTimeout))
		if _, err := w.Write(append(event, data...)); err != nil || out.Flush() != nil {
			return
		}
		seq, all = last, false
		select {
		case <-changed:
		case <-pings.C:
		case <-r.Context().Done():
			return
		case <-s.ctx.Done():
			return
		}
	}
}

// enter counts a stream, unless there are too many, or the server has been closed. Close waits until leave.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.published.streams >= mostStreams || s.ctx.Err() != nil {
		return false
	}
	s.tasks.Add(1)
	s.published.streams++
	s.refresh(time.Now())
	s.wakeUp() // queues are due
	return true
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.published.streams--
	s.tasks.Done()
}

// newID returns 16 hex digits that no other server has.
func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
