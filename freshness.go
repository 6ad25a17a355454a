package leadership

import (
	"time"

	"github.com/go-leadership/leadership/internal/suspension"
)

// AsOf returns the local time as of which Leader is known to be right: all changes before it are in what Leader returns,
// and later ones might be. While the service answers, it is no older than half the store's TTL and two round trips. It is
// zero before anything is known. If the machine was suspended since then, time.Since of what AsOf returns counts that, as a
// lease does; call AsOf again after a suspension.
func (f *Follower) AsOf() time.Time {
	asOf := f.confirmed()
	if age := suspension.Since(asOf); age > time.Since(asOf) {
		return time.Now().Add(-age)
	}
	return asOf
}

// confirmed returns the time that came with the last answer.
func (f *Follower) confirmed() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asOf
}

// Fresh reports whether what Leader returns is known to have been right within the last TTL of the store: a healthy
// store confirms it several times in that time. It is false before anything is known, while the store is silent, after the
// machine was suspended for a TTL until the next confirmation, and some time after the follower has ended. Callers with
// another limit compare AsOf with it.
func (f *Follower) Fresh() bool {
	return suspension.Since(f.confirmed()) < f.store.TTL()
}

// silence tells of a store that is silent for a TTL, and of its return. A timer calls check, which sets it again: a follower
// whose store answers costs no goroutine.
type silence struct {
	follower *Follower
	timer    *time.Timer
	stale    bool // the silence has been logged; check alone uses it
}

// start begins to check.
func (s *silence) start(f *Follower) {
	s.follower = f
	s.timer = time.AfterFunc(time.Hour, s.check)
	s.timer.Reset(f.store.TTL()) // check uses the timer
}

// check logs when what is known has not been confirmed for a TTL, and when it is again: once each.
func (s *silence) check() {
	f := s.follower
	if f.ctx.Err() != nil || !f.tasks.begin() {
		return
	}
	defer f.tasks.end()
	ttl, asOf := f.store.TTL(), f.confirmed()
	age := suspension.Since(asOf)
	switch {
	case asOf.IsZero(): // ask says that there is no first answer
		age = 0
	case !s.stale && age >= ttl:
		s.stale = true
		f.log.Warn("the leader has not been confirmed for a TTL", "as_of", asOf, "age", age)
	case s.stale && age < ttl:
		s.stale = false
		f.log.Info("the leader is confirmed again", "as_of", asOf)
	}
	if s.stale {
		s.timer.Reset(ttl / 8) // to say soon that it is confirmed again
	} else {
		s.timer.Reset(ttl - age)
	}
	if f.ctx.Err() != nil { // the follower may have stopped the timer before it was set
		s.timer.Stop()
	}
}
