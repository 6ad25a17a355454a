package memory

import (
	"time"

	"github.com/go-leadership/leadership/internal/memory"
)

// Faults are the switches on the line between one store and its service. They take effect at once, for requests under
// way too, and may be used at any time from any goroutine.
type Faults struct{ faults *memory.Faults }

// Cut stops everything on the line, in both directions, until Heal. Messages under way wait.
func (f *Faults) Cut() { f.faults.Cut() }

// LoseReplies lets requests through and loses their answers, and stops notifications, until Heal.
func (f *Faults) LoseReplies() { f.faults.LoseReplies() }

// StallWatches holds notifications back until Heal, while requests are answered.
func (f *Faults) StallWatches() { f.faults.Stall() }

// Delay adds the time to every request, every answer and every notification. Zero ends that.
func (f *Faults) Delay(d time.Duration) { f.faults.Delay(d) }

// DelayReplies adds the time to every answer and every notification, in addition to Delay. Zero ends that.
func (f *Faults) DelayReplies(d time.Duration) { f.faults.DelayReplies(d) }

// Heal undoes Cut, LoseReplies and StallWatches.
func (f *Faults) Heal() { f.faults.Heal() }

// Expire makes the service end the session at once, before its TTL has passed. No promise covers that.
func (f *Faults) Expire() { f.faults.Expire() }

// Requests returns how many requests the store has sent so far, without those that renew its session.
func (f *Faults) Requests() int { return f.faults.Requests() }
