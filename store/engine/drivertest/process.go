package drivertest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// process is a driver with a session that is renewed.
type process struct {
	engine.Driver
	engine.Session
	proof engine.Proof

	stopRenewing func() // returns when Keep has

	mu     sync.Mutex
	proofs []proof       // guarded by mu: of renewals
	over   chan struct{} // closed when Keep has returned
}

// proof is one that Keep has told.
type proof struct {
	engine.Proof
	at time.Time // when it was told
}

// driver opens a driver.
func (e *env) driver() engine.Driver {
	e.Helper()
	return e.driverOf(e.h.Open(e.ctx))
}

// driverOf uses a driver that was opened.
func (e *env) driverOf(d engine.Driver, err error) engine.Driver {
	e.Helper()
	e.ok(err, "open a driver")
	e.onClose(func() {
		if err := d.Close(); err != nil {
			e.Errorf("close a driver: %v", err)
		}
	})
	return d
}

// process opens a driver and a session, which is renewed until the end of the case.
func (e *env) process() *process {
	e.Helper()
	return e.processOn(e.driver())
}

// processOn is process on a driver that was opened.
func (e *env) processOn(d engine.Driver) *process {
	e.Helper()
	p := &process{Driver: d, over: make(chan struct{})}
	p.Session, p.proof = e.open(p.Driver)
	lease := e.leases[len(e.leases)-1]
	ctx, cancel := context.WithCancel(e.ctx)
	go func() {
		defer close(p.over)
		_ = p.Keep(ctx, func(one engine.Proof) {
			told := proof{one, time.Now()}
			lease.renewed(one)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.proofs = append(p.proofs, told)
		})
		if ctx.Err() == nil {
			lease.ended()
		}
	}()
	p.stopRenewing = func() {
		cancel()
		<-p.over
	}
	e.onClose(func() {
		p.stopRenewing()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		_ = p.End(ctx, nil)
	})
	return p
}

// open opens a session.
func (e *env) open(d engine.Driver) (s engine.Session, proof engine.Proof) {
	e.Helper()
	var sent time.Time
	e.finally("open a session", func() (err error) {
		sent = time.Now()
		s, proof, err = d.Open(e.ctx)
		return err
	})
	one := &lease{id: s.ID(), sent: sent}
	one.renewed(proof)
	e.leases = append(e.leases, one)
	return s, proof
}

// lease is how long a session stands for certain.
type lease struct {
	id string // of the session

	mu   sync.Mutex
	sent time.Time // guarded by mu: when the last renewal that succeeded was sent
	over time.Time // guarded by mu: when Keep returned; zero: it has not
}

// renewed counts a renewal.
func (l *lease) renewed(p engine.Proof) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sent := p.Sent.Time(); p.Valid > 0 && sent.After(l.sent) {
		l.sent = sent
	}
}

// ended says that the driver has found the session over.
func (l *lease) ended() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = time.Now()
}

func (l *lease) isOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.over.IsZero()
}

// lapsed reports whether the session might have ended by now because it was not renewed. A session that was over before
// that was not ended by a lack of renewals.
func (l *lease) lapsed(ttl time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	end := l.sent.Add(ttl)
	return !time.Now().Before(end) && (l.over.IsZero() || !l.over.Before(end))
}

// lapsed reports whether a session might have ended because it was not renewed in time, by a busy machine or service.
func (e *env) lapsed() bool {
	return slices.ContainsFunc(e.leases, func(l *lease) bool { return l.lapsed(e.h.TTL) })
}

// over reports whether a session has ended because it was not renewed in time: nothing is worth waiting for any more.
func (e *env) over() bool {
	return slices.ContainsFunc(e.leases, func(l *lease) bool { return l.isOver() && l.lapsed(e.h.TTL) })
}

// ended says that the case itself has ended a session.
func (e *env) ended(s engine.Session) {
	e.leases = slices.DeleteFunc(e.leases, func(l *lease) bool { return l.id == s.ID() })
}

// renewedSince reports whether a renewal that was sent after the time has succeeded.
func (p *process) renewedSince(t store.Instant) bool {
	return slices.ContainsFunc(p.renewals(), func(one proof) bool { return one.Sent.Time().After(t.Time()) })
}

// renewals returns what Keep has told so far.
func (p *process) renewals() []proof {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.proofs)
}
