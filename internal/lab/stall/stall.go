// Package stall measures how long the test process stood still, so that a test with an upper bound can tell a slow
// machine from a slow store: the bound is what the documentation promises, plus what the process itself missed.
package stall

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// interval is how often a meter looks at the clock. A delay of less is not counted.
const interval = 10 * time.Millisecond

// Meter measures from [Watch] or [Start] on. Its methods may be called at the same time.
type Meter struct {
	stop chan struct{} // closed by Stop
	done chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex
	began   time.Time
	last    time.Time     // when the goroutine last ran
	total   time.Duration // of all delays
	longest time.Duration
}

// Watch starts a meter that ends with the test. If the test fails, its output says how long the process stood still.
// Call it before anything that measures a time, and outside of a synctest bubble, where no real time passes.
func Watch(t testing.TB) *Meter {
	m := Start()
	t.Cleanup(func() {
		m.Stop()
		if t.Failed() {
			t.Log(m)
		}
	})
	return m
}

// Start starts a meter. The caller stops it.
func Start() *Meter {
	now := time.Now()
	m := &Meter{stop: make(chan struct{}), done: make(chan struct{}), began: now, last: now}
	go m.run()
	return m
}

// Stop ends the meter's goroutine and waits for it. Only the first caller may call it.
func (m *Meter) Stop() {
	close(m.stop)
	<-m.done
}

func (m *Meter) run() {
	defer close(m.done)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-m.stop:
			return
		case <-ticker.C:
			m.tick(time.Now())
		}
	}
}

func (m *Meter) tick(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	late := m.late(now)
	m.total += late
	m.longest = max(m.longest, late)
	m.last = now
}

// late is how much later than expected the goroutine runs at this instant. The caller holds mu.
func (m *Meter) late(now time.Time) time.Duration {
	if late := now.Sub(m.last) - interval; late > interval {
		return late
	}
	return 0
}

// Stalled returns how long the process has stood still so far, in all. Add it to an upper bound.
func (m *Meter) Stalled() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.total + m.late(time.Now())
}

// String describes the measurement for the message of a failed test.
func (m *Meter) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fmt.Sprintf("this process stood still for %v of %v (at most %v at a time)",
		m.total.Round(time.Millisecond), m.last.Sub(m.began).Round(time.Millisecond), m.longest.Round(time.Millisecond))
}
