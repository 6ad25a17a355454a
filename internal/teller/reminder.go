package teller

import "time"

// Reminder says when something that lasts is told again: after a minute, and then after twice as long each time, up to an
// hour. The zero value is due.
type Reminder struct {
	next  time.Time
	pause time.Duration
}

// Due reports whether it is time to tell it.
func (r *Reminder) Due() bool {
	if time.Now().Before(r.next) {
		return false
	}
	r.pause = min(max(time.Minute, 2*r.pause), time.Hour)
	r.next = time.Now().Add(r.pause)
	return true
}
