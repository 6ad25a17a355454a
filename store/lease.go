package store

import (
	"sync/atomic"
	"time"
)

// Lease is the time for which a session is certain to stand, by what this process knows. It is the safety arithmetic of
// the election, once for all stores. See Gray and Cheriton, "Leases: an efficient fault-tolerant mechanism for
// distributed file cache consistency" (1989).
//
// A store reads [Now] before it sends what renews the session and calls Renew when the service has confirmed it. The
// lease then holds until sent + valid, without any further event, by the clocks of this machine alone. The service
// counts the session's TTL from a later moment. So with valid = TTL − grace the lease ends at least grace before the
// service ends the session, as long as the two clocks run at the same rate.
//
// Once the deadline has passed nothing revives what was built on the lease: a confirmation that comes late starts a
// new span, and the terms of the old one stay over. NewLease makes one. The methods may be called from any number of
// goroutines.
type Lease struct {
	state atomic.Pointer[leaseState]
}

// Span is an unbroken run of renewals of a lease.
type Span uint64

// leaseState is immutable except for changed, which is closed when another state replaces it.
type leaseState struct {
	span      Span
	held      bool // false before the first renewal and after a deadline that passed
	ended     bool // the session is over: no renewal counts any more
	sent      Instant
	valid     time.Duration
	confirmed time.Time
	changed   chan struct{}
}

// Renewal is a renewal of a lease.
type Renewal struct {
	Sent      time.Time       // when the request was sent
	Confirmed time.Time       // when its answer came
	Deadline  time.Time       // when the lease ends unless it is renewed; zero if it has ended
	Changed   <-chan struct{} // closed at the next renewal, or when the lease has been found to have ended
}

// NewLease returns a lease that does not hold yet.
func NewLease() *Lease {
	l := &Lease{}
	l.state.Store(&leaseState{changed: make(chan struct{})})
	return l
}

// Renew extends the lease to sent + valid and reports whether it holds now. A renewal that arrives after its own
// deadline changes nothing, nor does one that arrives after a later one. It does not block.
func (l *Lease) Renew(sent Instant, valid time.Duration) bool {
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
			span: old.span, held: true, sent: sent, valid: valid, confirmed: now, changed: make(chan struct{}),
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
			return true
		}
	}
}

// End ends the lease for good: the session is known to be over. It does not block.
func (l *Lease) End() {
	for {
		if old := l.state.Load(); old.ended || l.lapse(old, true) {
			return
		}
	}
}

// Begin returns the current span and whether the lease holds.
func (l *Lease) Begin() (Span, bool) {
	s, left := l.load()
	return s.span, left > 0
}

// Holds reports whether the span goes on: the lease has been renewed in time ever since, and its deadline is in the
// future at this very call. It takes no lock and allocates nothing while the answer is yes. The first caller to see
// the deadline passed ends the span for all.
func (l *Lease) Holds(span Span) bool {
	s, left := l.load()
	return left > 0 && s.span == span
}

// Remaining returns the time until the lease's deadline, less any suspension of the machine; zero if the lease has
// ended.
func (l *Lease) Remaining() time.Duration {
	_, left := l.load()
	return left
}

// Last returns the last renewal.
func (l *Lease) Last() Renewal {
	s, left := l.load()
	r := Renewal{Sent: s.sent.t, Confirmed: s.confirmed, Changed: s.changed}
	if left > 0 {
		r.Deadline = s.sent.t.Add(s.valid)
	}
	return r
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
		span: old.span + 1, ended: ended, sent: old.sent, confirmed: old.confirmed, changed: make(chan struct{}),
	}
	if !l.state.CompareAndSwap(old, next) {
		return false
	}
	close(old.changed)
	return true
}
