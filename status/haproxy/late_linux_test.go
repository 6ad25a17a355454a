package haproxy

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/stretchr/testify/require"
)

// late is a slow network between HAProxy's checks and a process. Once it is armed, the next answer 200 arrives late, and
// no answer after it.
type late struct {
	delay time.Duration // of that answer

	ended    chan struct{} // closed when the test ends
	to       string        // the process
	mu       sync.Mutex    // guards what is below
	armed    bool
	answered time.Time // when the process had given the answer that arrives late
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
	if !l.last().IsZero() {
		select {
		case <-r.Context().Done(): // HAProxy has waited for the time-out
		case <-l.ended:
		}
		return
	}
	code, err := ask("http://" + l.to + r.URL.String())
	if err != nil {
		code = http.StatusBadGateway
	}
	if code == http.StatusOK && l.fire() {
		select {
		case <-time.After(l.delay):
		case <-l.ended:
		}
	}
	w.WriteHeader(code)
}

// fire reports whether the answer that the process has just given arrives late.
func (l *late) fire() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.armed {
		return false
	}
	l.armed, l.answered = false, time.Now()
	return true
}

// arm makes the network fast, or slow from the next answer on.
func (l *late) arm(slow bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed, l.answered = slow, time.Time{}
}

// last returns when the process had given the answer that arrives late; zero: there was none yet.
func (l *late) last() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answered
}

// TestLate: for how long HAProxy sends to a process after its last answer 200, if that answer is late and the next check
// gets none: for longer than the interval and one time-out, and for less than the sum that the page shows.
func TestLate(t *testing.T) {
	t.Parallel()
	meter := stall.Watch(t)
	const inter, answer = 100 * time.Millisecond, 1400 * time.Millisecond
	w := on(t, files(t))
	l := &late{delay: answer / 2}
	b := &balancer{name: "late", late: l, changes: []string{"inter 500ms", "inter 100ms", "check   500ms", "check   1400ms"}}
	w.behind(b)
	for began := time.Now(); ; { // again if a check takes its time-out because the machine is busy
		l.arm(true)
		storetest.Eventually(t, func() bool { return !l.last().IsZero() && !b.none(l.last()).IsZero() }, "HAProxy has no server")
		kept := w.members[0].last().Sub(l.last())
		require.LessOrEqual(t, kept, inter+min(inter, 500*time.Millisecond)+2*answer+meter.Stalled(), "%v", meter)
		if kept > inter+answer {
			t.Logf("HAProxy has sent to the process for %v after its last answer", kept.Round(time.Millisecond))
			return
		}
		require.Less(t, time.Since(began), storetest.Watchdog, "HAProxy never sends for longer than %v: %v", inter+answer, kept)
		again := time.Now()
		l.arm(false)
		storetest.Eventually(t, func() bool { return b.served().received.After(again) }, "HAProxy sends to the leader again")
	}
}
