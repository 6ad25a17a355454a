package bench

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// wire counts what passes over the connections of one session. Its conversations parse the messages.
type wire struct {
	talk func(*metered) conversation
	over dialFunc // opens the connections; nil: directly

	mu      sync.Mutex
	sent    int       // guarded by mu, as are all below: requests
	events  int       // notifications of changes
	carried int       // bytes, in both directions
	pending int       // requests that should be answered at once, and have not been
	last    time.Time // when something was sent or received
	deepest int       // see rounds
}

// conversation parses the bytes of one connection, which come in pieces of any size, and calls the methods of metered
// for each message. It is called by one goroutine at a time.
type conversation interface {
	sent(p []byte)
	received(p []byte)
}

// requests returns how many requests have been sent so far.
func (w *wire) requests() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent
}

// notifications returns how many notifications have come so far.
func (w *wire) notifications() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.events
}

// bytes returns how many bytes have passed so far, in both directions.
func (w *wire) bytes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.carried
}

// resetRounds begins to count round trips anew. No request may be under way.
func (w *wire) resetRounds() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deepest = 0
}

// rounds returns how many round trips have followed one another since resetRounds. Requests that are under way at the
// same time count as one.
func (w *wire) rounds() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deepest
}

// quiet reports whether no request is under way and nothing has passed since the given time.
func (w *wire) quiet(since time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pending == 0 && w.last.Before(since)
}

// wires are those of several sessions.
type wires []*wire

func (s *service) newWire() *wire { return &wire{talk: s.talk} }

func (s *service) newWires(n int) wires {
	list := make(wires, n)
	for i := range list {
		list[i] = s.newWire()
	}
	return list
}

// rest is how long nothing must pass before the wires are quiet.
const rest = 2 * time.Millisecond

// awaitQuiet waits until the wires are quiet, and at least for rest, so that all measurements begin in the same state.
func (list wires) awaitQuiet(b *testing.B) {
	b.Helper()
	began := time.Now()
	poll(b, "the connections to be at rest", func() bool {
		since := time.Now().Add(-rest)
		return since.After(began) && !slices.ContainsFunc(list, func(w *wire) bool { return !w.quiet(since) })
	})
}

// sum adds up the counts of all.
func (list wires) sum(count func(*wire) int) int {
	n := 0
	for _, w := range list {
		n += count(w)
	}
	return n
}

// poll waits until the condition holds.
func poll(b *testing.B, what string, holds func() bool) {
	b.Helper()
	for end := time.Now().Add(watchdog); !holds(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			b.Fatalf("waited %v for %s", watchdog, what)
		}
	}
}

// dialFunc opens a connection.
type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// dial opens a connection that counts.
func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	over := w.over
	if over == nil {
		over = (&net.Dialer{}).DialContext
	}
	conn, err := over(ctx, network, address)
	if err != nil {
		return nil, err
	}
	m := &metered{Conn: conn, wire: w, pending: map[uint64]int{}}
	m.talk = w.talk(m)
	return m, nil
}

// metered is a connection that counts its messages. Its conversation and all fields below are guarded by the wire's mu.
type metered struct {
	net.Conn
	wire    *wire
	talk    conversation
	pending map[uint64]int // the rounds of requests that are under way, by number
}

// Write implements net.Conn.
func (m *metered) Write(p []byte) (int, error) {
	m.wire.mu.Lock()
	m.talk.sent(p)
	m.wire.carried += len(p)
	m.wire.mu.Unlock()
	return m.Conn.Write(p)
}

// Read implements net.Conn.
func (m *metered) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	m.wire.mu.Lock()
	m.talk.received(p[:n])
	m.wire.carried += n
	m.wire.mu.Unlock()
	return n, err
}

// Close implements net.Conn. Requests that are under way get no answer.
func (m *metered) Close() error {
	m.wire.mu.Lock()
	m.wire.pending -= len(m.pending)
	clear(m.pending)
	m.wire.mu.Unlock()
	return m.Conn.Close()
}

// asked counts a request that is answered at once. The number tells it from others that are under way.
func (m *metered) asked(number uint64) {
	m.noted()
	m.pending[number] = m.wire.deepest + 1
	m.wire.pending++
}

// answered handles the answer.
func (m *metered) answered(number uint64) {
	w := m.wire
	w.last = time.Now()
	if round, ok := m.pending[number]; ok { // not closed meanwhile
		delete(m.pending, number)
		w.pending--
		w.deepest = max(w.deepest, round)
	}
}

// noted counts a request whose answer is not awaited: a ping, or one that a later change answers.
func (m *metered) noted() {
	m.wire.sent++
	m.wire.last = time.Now()
}

// notified counts a notification.
func (m *metered) notified() {
	m.wire.events++
	m.wire.last = time.Now()
}
