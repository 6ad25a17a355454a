package bench

import (
	"context"
	"encoding/binary"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// wire counts what passes over the connections of one session.
type wire struct {
	mu       sync.Mutex
	sent     tally // guarded by mu, as are all below
	answered tally
	pending  int       // requests but pings that are under way
	last     time.Time // when something was sent or received
	events   int       // notifications of watches that have fired
	deepest  int       // see rounds
}

// requests returns what has been sent so far.
func (w *wire) requests() tally {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.sent)
}

// answers returns how many requests of the kind have been answered so far.
func (w *wire) answers(kind string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answered[kind]
}

// notified returns how many watches have fired so far.
func (w *wire) notified() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.events
}

// resetRounds begins to count round trips anew. Nothing may be under way but what keeps the session.
func (w *wire) resetRounds() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deepest = 0
}

// rounds returns how many round trips have followed one another since resetRounds: requests that are sent before the
// answer of an earlier one has come count as one with it. What keeps the session does not count.
func (w *wire) rounds() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deepest
}

// quiet reports whether nothing is under way and nothing has passed since then.
func (w *wire) quiet(since time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pending == 0 && w.last.Before(since)
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

// wires are those of several sessions.
type wires []*wire

func newWires(n int) wires {
	list := make(wires, n)
	for i := range list {
		list[i] = &wire{}
	}
	return list
}

// rest is for how long nothing must pass for all that was going on to be over.
const rest = 2 * time.Millisecond

// settle waits until nothing is under way, for some time in any case: what is measured next starts from rest, and
// from the same rest whatever was done before.
func (list wires) settle(b *testing.B) {
	b.Helper()
	began := time.Now()
	poll(b, "the connections to be at rest", func() bool {
		since := time.Now().Add(-rest)
		return since.After(began) && !slices.ContainsFunc(list, func(w *wire) bool { return !w.quiet(since) })
	})
}

// sum adds up what all have counted.
func (list wires) sum(count func(*wire) int) int {
	n := 0
	for _, w := range list {
		n += count(w)
	}
	return n
}

// dial is for zookeeper.Config.Dial.
func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &metered{Conn: conn, wire: w, pending: map[int32]request{}}, nil
}

// dialPlain is for zk.WithDialer.
func (w *wire) dialPlain(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return w.dial(ctx, network, address)
}

// metered is a connection whose messages are counted.
type metered struct {
	net.Conn
	wire    *wire
	out, in frames            // of the one goroutine that writes, or reads
	pending map[int32]request // guarded by the wire's mu: sent and not answered, by number
}

// request is what is known of one that is under way.
type request struct {
	kind  string
	round int
}

// Write implements net.Conn.
func (m *metered) Write(p []byte) (int, error) {
	m.out.feed(p, m.request)
	return m.Conn.Write(p)
}

// Read implements net.Conn.
func (m *metered) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	m.in.feed(p[:n], m.reply)
	return n, err
}

// Close implements net.Conn. What is under way is not going to be answered.
func (m *metered) Close() error {
	w := m.wire
	w.mu.Lock()
	for _, r := range m.pending {
		if r.kind != kindPing {
			w.pending--
		}
	}
	clear(m.pending)
	w.mu.Unlock()
	return m.Conn.Close()
}

// request takes note of a request: its number, and what kindOf reads.
func (m *metered) request(frame []byte) {
	kind := kindOf(frame)
	w := m.wire
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sent == nil {
		w.sent, w.answered = tally{}, tally{}
	}
	w.last = time.Now()
	w.sent[kind]++
	if kind != kindPing {
		w.pending++
	}
	m.pending[bigEndian(frame)] = request{kind, w.deepest + 1}
}

// notification is the number in the place of a request's in the message that a watch has fired.
const notification = -1

// reply takes note of a message from the server: the number of the request that it answers, and the answer.
func (m *metered) reply(frame []byte) {
	w := m.wire
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = time.Now()
	number := bigEndian(frame)
	if number == notification {
		w.events++
		return
	}
	r, ok := m.pending[number]
	if !ok { // closed meanwhile
		return
	}
	delete(m.pending, number)
	w.answered[r.kind]++
	if r.kind != kindPing {
		w.pending--
	}
	if !keepsSession(r.kind) {
		w.deepest = max(w.deepest, r.round)
	}
}

// frames cuts a stream into messages: a length of four bytes, and as many bytes behind it. The first, which opens the
// session, has a form of its own and is left out.
type frames struct {
	begun  bool
	buffer []byte
}

func (f *frames) feed(p []byte, each func(frame []byte)) {
	const header = 4
	f.buffer = append(f.buffer, p...)
	for len(f.buffer) >= header {
		end := header + int(bigEndian(f.buffer))
		if len(f.buffer) < end {
			return
		}
		if f.begun {
			each(f.buffer[header:end])
		}
		f.begun = true
		f.buffer = f.buffer[:copy(f.buffer, f.buffer[end:])]
	}
}

func bigEndian(p []byte) int32 { return int32(binary.BigEndian.Uint32(p)) }
