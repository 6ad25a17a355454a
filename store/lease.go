package store

import (
	"sync"
	"sync/atomic"
	"time"
)

// Lease is the time for which a session is certain to stand, by what this process knows. It is the safety arithmetic of
// the election, once for all stores. See Gray and Cheriton, "Leases: an efficient fault-tolerant mechanism for
// distributed file cache consistency" (1989).
//
// A store reads [Now] before it sends what renews the session and calls Renew when the service has confirmed it. The
// lease then holds until sent + valid, by the clocks of this machine, without any further event. The service
// counts the session's TTL from a later moment. So with valid = TTL − grace the lease ends at least grace before the
// service ends the session, as long as the two clocks run at the same rate.
//
// Once the deadline has passed nothing revives what was built on the lease: a confirmation that comes late starts a
// new span, and the terms of the old one stay over. NewLease makes one. The methods may be called from any number of
// goroutines.
//
// One timer tells all who wait for the end of the lease, however many terms are built on it.
type Lease struct {
	state atomic.Pointer[leaseState]

	mu    sync.Mutex
	timer *time.Timer // guarded by mu; calls ring when the next renewal is overdue, and at the deadline; nil before the first
}

// Span is an unbroken run of renewals of a lease.
type Span uint64

// leaseState is immutable except for its channels, which are closed by the one who replaces it.
type leaseState struct {
	span      Span
	held      bool // false before the first renewal and after a deadline that passed
	ended     bool // the session is over: no renewal counts any more
	sent      Instant
	valid     time.Duration
	confirmed time.Time
	late      bool          // the next renewal is overdue
	changed   chan struct{} // closed at the next renewal and when the lease lapses
	overdue   chan struct{} // closed when late is set; renewals before that pass it on
	lapsed    chan struct{} // closed when the span is over; shared by all states of the span
}

// Renewal is a renewal of a lease.
type Renewal struct {
	Sent      time.Time       // when the request was sent
	Confirmed time.Time       // when its answer came
	Deadline  time.Time       // when the lease ends unless it is renewed; zero if it has ended
	Changed   <-chan struct{} // closed at the next renewal, or when the lease has ended
	Overdue   <-chan struct{} // closed when a renewal is overdue: this one's next, or that of a later one
}

// NewLease returns a lease that does not hold yet.
func NewLease() *Lease {
	l := &Lease{}
	l.state.Store(&leaseState{
		changed: make(chan struct{}), overdue: make(chan struct{}), lapsed: make(chan struct{}),
	})
	return l
}

// Renew extends the lease to sent + valid and reports whether it holds now. A renewal that arrives after its own
// deadline changes nothing, nor does one that arrives after a later one. It does not block.
func (l *Lease) Renew(sent Instant, valid time.Duration) bool {
	if valid <= 0 { // it proves nothing, and might come with the zero Instant, too long ago to be subtracted
		return l.Remaining() > 0
	}
	for {
		old := l.state.Load()
		if old.ended {
			return false
		}
		now := time.Now()
		if old.held && old.left(now) <= 0 {
			l.lapse(old, false)
			continue
		}
		next := &leaseState{
			span: old.span, held: true, sent: sent, valid: valid, confirmed: now,
			changed: make(chan struct{}), overdue: old.overdue, lapsed: old.lapsed,
		}
		if old.late {
			next.overdue = make(chan struct{})
		}
		left := next.left(now)
		if old.held && left <= old.left(now) {
			return true
		}
		if left <= 0 {
			return false
		}
		if l.state.CompareAndSwap(old, next) {
			close(old.changed)
			l.ring()
			return true
		}
	}
}

// End ends the lease for good: the session is known to be over. It does not block.
func (l *Lease) End() {
	for {
		if old := l.state.Load(); old.ended || l.lapse(old, true) {
			break
		}
	}
	l.ring()
}

// Span returns the current span and whether the lease holds.
func (l *Lease) Span() (Span, bool) {
	s, left := l.load()
	return s.span, left > 0
}

// Holds reports whether the span lasts: the lease has been renewed in time ever since, and its deadline is in the
// future at this very call. It takes no lock and allocates nothing while the answer is yes. The first caller to see
// the deadline passed ends the span for all.
func (l *Lease) Holds(span Span) bool {
	s, left := l.load()
	return left > 0 && s.span == span
}

// Lapsed returns a channel that is closed when the span is over: at its deadline, if not before, with no event needed. It
// does not block. A suspension of the machine makes the timer that closes it late, by as long as it lasted: see Check.
func (l *Lease) Lapsed(span Span) <-chan struct{} {
	if s, _ := l.load(); s.span == span {
		return s.lapsed
	}
	return lapsed
}

// lapsed is the channel of the spans that are over.
var lapsed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Check looks at the clocks: it ends the span if the deadline has passed, and sets the timer anew. Call it when the machine
// has resumed from a suspension, during which the timer stood still; package engine does. It does not block.
func (l *Lease) Check() { l.ring() }

// Remaining returns the time until the lease's deadline, less any suspension of the machine; zero if the lease has
// ended.
func (l *Lease) Remaining() time.Duration {
	_, left := l.load()
	return left
}

// Last returns the last renewal.
func (l *Lease) Last() Renewal {
	s, left := l.load()
	r := Renewal{Sent: s.sent.t, Confirmed: s.confirmed, Changed: s.changed, Overdue: s.overdue}
	if left > 0 {
		r.Deadline = s.deadline(time.Now())
	}
	return r
}

// deadline returns when the lease ends, by both clocks. The monotonic clock has stood still while the machine was suspended.
func (s *leaseState) deadline(now time.Time) time.Time {
	deadline := s.sent.t.Add(s.valid)
	if left := s.left(now); left < deadline.Sub(now) {
		return now.Add(left)
	}
	return deadline
}

// load returns the state and the time that is left; zero if the lease does not hold. If the deadline has passed, load
// ends the span at once, unless a renewal that came in time has replaced the state. Otherwise the span could be seen to
// end here and to hold at the next call.
func (l *Lease) load() (*leaseState, time.Duration) {
	for {
		s := l.state.Load()
		if !s.held {
			return s, 0
		}
		if left := s.left(time.Now()); left > 0 {
			return s, left
		}
		l.lapse(s, false)
	}
}

func (s *leaseState) left(now time.Time) time.Duration { return s.valid - s.sent.Since(now) }

// lapse replaces old by a state that does not hold, unless another state has replaced old already.
func (l *Lease) lapse(old *leaseState, ended bool) bool {
	next := &leaseState{
		span: old.span + 1, ended: ended, sent: old.sent, confirmed: old.confirmed,
		late: old.late, changed: make(chan struct{}), overdue: old.overdue, lapsed: make(chan struct{}),
	}
	if !l.state.CompareAndSwap(old, next) {
		return false
	}
	close(old.changed)
	close(old.lapsed)
	return true
}

// ring ends the lease if its deadline has passed, says that the next renewal is overdue if it is, and sets the timer to
// what comes next. The timer calls it, and each method that has changed the lease.
func (l *Lease) ring() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer == nil {
		l.timer = time.AfterFunc(time.Hour, l.ring)
	}
	for {
		s, left := l.load()
		switch next := left - s.reserve(); {
		case left <= 0:
			l.timer.Stop()
			return
		case s.late:
			l.timer.Reset(left)
			return
		case next >= 0:
			l.timer.Reset(next + 1)
			return
		}
		late := *s
		late.late = true
		if l.state.CompareAndSwap(s, &late) {
			close(s.overdue)
		}
	}
}

// reserve is the rest of the lease in which the next renewal is overdue: a third. Over a slow link it comes
// later, when two round trips like that of the last one have passed: two thirds of what is left then, an eighth at least.
func (s *leaseState) reserve() time.Duration {
	trip := s.confirmed.Sub(s.sent.t)
	return max(s.valid/8, min(s.valid/3, (s.valid-2*trip)*2/3))
}
