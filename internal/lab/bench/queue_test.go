package bench

import (
	"strconv"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// queue is an election and its candidates, which share some sessions.
type queue struct {
	wires      wires
	candidates []*contender // the leader first
	resigned   *contender   // the one that does not stand; nil if all do
}

// newQueue returns when the first one leads and all others wait. All values begin with the given one.
func newQueue(b *testing.B, s *server, election string, candidates, sessions int, ttl time.Duration, value string) *queue {
	b.Helper()
	return s.newQueueOver(b, s.newWires(sessions), election, candidates, ttl, value)
}

// newQueueOver is newQueue with a session over each of the wires.
func (s *server) newQueueOver(b *testing.B, over wires, election string, candidates int, ttl time.Duration, value string) *queue {
	b.Helper()
	q := &queue{wires: over}
	sessions := len(over)
	var stores []store.Store
	for _, w := range q.wires {
		stores = append(stores, s.openStore(b, ttl, w))
	}
	for i := range candidates {
		c := newContender(b, stores[i%sessions], election, value+strconv.Itoa(i))
		c.stand(b)
		q.candidates = append(q.candidates, c)
	}
	q.candidates[0].takeOver(b)
	return q
}

// change lets the leader resign, and the next in line lead and acknowledge. The two run at the same time, as in two
// processes. It returns the time of the call of Resign, and the time at which the next one led.
func (q *queue) change(b *testing.B) (began, led time.Time) {
	b.Helper()
	leader := q.candidates[0]
	type result struct {
		began time.Time
		err   error
	}
	resigned := make(chan result, 1)
	go func() {
		began := time.Now()
		resigned <- result{began, leader.term.Withdraw(b.Context())}
	}()
	led = q.candidates[1].takeOver(b)
	q.candidates, q.resigned = q.candidates[1:], leader
	r := receive(b, resigned, "Resign to return")
	require.NoError(b, r.err)
	return r.began, led
}

// reenter lets the candidate that resigned, if any, stand again, at the back of the queue.
func (q *queue) reenter(b *testing.B) {
	b.Helper()
	if q.resigned != nil {
		q.resigned.stand(b)
		q.candidates, q.resigned = append(q.candidates, q.resigned), nil
	}
}

// handover measures from the call of Resign until the next one leads.
func (q *queue) handover(b *testing.B) time.Duration {
	q.reenter(b)
	q.wires.awaitQuiet(b)
	began, led := q.change(b)
	return led.Sub(began)
}
