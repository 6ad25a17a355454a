package leadership

import "time"

// AsOf returns the local time as of which Leader is known to be right: all changes before it are in what Leader returns,
// and later ones might be. While the service answers, it is no older than half the store's TTL and two round trips. It is
// zero before anything is known.
func (f *Follower) AsOf() time.Time { return f.learn(nil) }

// Fresh reports whether what Leader returns is known to have been right within the last TTL of the store: a healthy
// store confirms it several times in that time. It is false before anything is known, while the store is silent, and
// some time after the follower has ended. Callers with another limit compare AsOf with it.
func (f *Follower) Fresh() bool {
	asOf := f.AsOf()
	return !asOf.IsZero() && time.Since(asOf) < f.store.TTL()
}

// checkSilence logs when what is known has not been confirmed for a TTL, and when it is again: once each. A timer calls it,
// and it sets that again: so it costs no goroutine.
func (f *Follower) checkSilence() {
	if f.life.Err() != nil || !f.tasks.begin() {
		return
	}
	defer f.tasks.end()
	ttl, asOf := f.store.TTL(), f.AsOf()
	age := time.Since(asOf)
	switch {
	case asOf.IsZero(): // ask says that there is no first answer
		age = 0
	case !f.silent && age >= ttl:
		f.silent = true
		f.log.Warn("who leads has not been confirmed for a TTL", "as_of", asOf, "age", age)
	case f.silent && age < ttl:
		f.silent = false
		f.log.Info("who leads is confirmed again", "as_of", asOf)
	}
	if f.silent {
		f.silence.Reset(ttl / 8) // to say soon that it is confirmed again
	} else {
		f.silence.Reset(ttl - age)
	}
	if f.life.Err() != nil { // the follower may have stopped the timer before it was set
		f.silence.Stop()
	}
}
