package haproxy

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// late is a slow network between HAProxy's checks and a process. Once it is armed, the last answer 200 arrives late, and
// no answer after it.
type late struct {
	left  time.Duration // of the lease: the first answer 200 with no more left than this is the last one
	delay time.Duration // of that answer

	ended  chan struct{} // closed when the test ends
	to     string        // the process
	mu     sync.Mutex    // held while a check is answered
	armed  bool          // guarded by mu
	silent bool          // guarded by mu: the last answer has been sent
}

// listen returns an address before that of the process.
func (l *late) listen(t testing.TB, to string) (address string) {
	l.to, l.ended = to, make(chan struct{})
	server := httptest.NewServer(l)
	t.Cleanup(func() {
		close(l.ended)
		server.Close()
	})
	return server.Listener.Addr().String()
}

// ServeHTTP hands a check on to the process.
func (l *late) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.silent {
		select {
		case <-r.Context().Done(): // HAProxy has waited for the time-out
		case <-l.ended:
		}
		return
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Get("http://" + l.to + r.URL.String())
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	var body struct {
		Candidate struct {
			Remaining float64 `json:"remaining_seconds"`
		}
	}
	_ = json.NewDecoder(resp.Body).Decode(&body)
	if l.armed && resp.StatusCode == http.StatusOK && body.Candidate.Remaining <= l.left.Seconds() {
		l.silent = true
		select {
		case <-time.After(l.delay):
		case <-l.ended:
		}
	}
	w.WriteHeader(resp.StatusCode)
}

// arm lets the next answer that can be the last one be it.
func (l *late) arm() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = true
}

// played reports whether the last answer was a 200 that came late.
func (l *late) played() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.silent
}
