package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// The rates of event streams.
const (
	mostStreams  = 200
	publishEvery = 500 * time.Millisecond // changes that come faster are sent together
	pingEvery    = 10 * time.Second       // so that a browser notices that the server has gone
	writeTimeout = 10 * time.Second       // a browser that takes longer to read loses its stream
)

// published is the page as it was computed last. Each part has the number of its last change, so a stream sends what
// has a higher number than its browser has seen, however long ago that was. The first number is the time at which the
// server began: a browser of an earlier server has a lower one. The server's mu guards it.
type published struct {
	seq   uint64
	whole uint64 // a browser with a lower number needs the whole page
	at    time.Time
	page  part // the problems and the summary
	rows  map[string]part
}

// part is a part of the page in JSON.
type part struct {
	seq  uint64
	text []byte
}

func newPublished() published {
	began := uint64(time.Now().UnixMicro())
	return published{seq: began, whole: began, rows: map[string]part{}}
}

// next returns the number of a change.
func (p *published) next() uint64 {
	p.seq++
	return p.seq
}

// forget leaves out an election. That is rare, so all browsers get the whole page.
func (p *published) forget(election string) {
	delete(p.rows, election)
	p.whole = p.next()
}

// renew returns a part as it is now, with another number if it has changed.
func (p *published) renew(old part, now any) part {
	text, err := json.Marshal(now)
	if err != nil || bytes.Equal(text, old.text) { // these types have no values that JSON has not
		return old
	}
	return part{p.next(), text}
}

// refresh computes the page, and numbers what has changed. The caller holds mu.
func (s *Server) refresh(now time.Time) Model {
	p := &s.published
	m := NewModel(s.snapshot(now), now)
	p.page = p.renew(p.page, m)
	for _, row := range m.Rows {
		p.rows[row.Name] = p.renew(p.rows[row.Name], row)
	}
	p.at = now
	return m
}

// update is what an event tells a browser.
type update struct {
	All     bool              `json:"all,omitempty"` // the browser forgets what this update does not have
	Now     Moment            `json:"now"`
	Page    json.RawMessage   `json:"page,omitempty"` // the problems and the summary
	Rows    []json.RawMessage `json:"rows,omitempty"`
	Changes []ChangeRow       `json:"changes,omitempty"` // the latest last
}

// since returns what has changed on the page since a number, and the number of the page as it is now.
func (s *Server) since(seq uint64) (u update, last uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, p := time.Now(), &s.published
	s.asked = now
	if now.Sub(p.at) >= publishEvery { // time alone makes a problem worse
		s.refresh(now)
	}
	u.Now = momentOf(now)
	if seq == p.seq {
		return u, seq
	}
	if u.All = seq < p.whole || seq > p.seq; u.All {
		seq = 0
	}
	if p.page.seq > seq {
		u.Page = p.page.text
	}
	for _, row := range p.rows {
		if row.seq > seq {
			u.Rows = append(u.Rows, row.text)
		}
	}
	for _, c := range s.changes {
		if c.seq > seq {
			u.Changes = append(u.Changes, rowOf(c))
		}
	}
	return u, p.seq
}

// events serves the stream of events: one for all elections, since a browser has six connections to a server. No lock
// is held while an event is written.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		w.Header().Set("Retry-After", "5")
		http.Error(w, "too many browsers look, or the server ends", http.StatusServiceUnavailable)
		return
	}
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{}) // that of the server would end the stream; recorders of tests have none
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx sends events at once then
	if r.Method != http.MethodGet {
		return
	}
	seq, _ := strconv.ParseUint(r.URL.Query().Get("since"), 10, 64) // the number of the page that the browser has
	ticks := time.NewTicker(publishEvery)
	defer ticks.Stop()
	for sent := (time.Time{}); ; {
		u, last := s.since(seq)
		if seq != last || time.Since(sent) >= pingEvery {
			text, _ := json.Marshal(u) // as in renew
			sent, seq = time.Now(), last
			_ = out.SetWriteDeadline(sent.Add(writeTimeout))
			if _, err := fmt.Fprintf(w, "id: %d\ndata: %s\n\n", last, text); err != nil || out.Flush() != nil {
				return
			}
		}
		select {
		case <-ticks.C:
		case <-r.Context().Done():
			return
		case <-s.ctx.Done():
			return
		}
	}
}
