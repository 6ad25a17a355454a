package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// How many records of the log wait for a reader that is slow, and how long the end of the program waits for it.
const (
	logBacklog  = 1000
	logPatience = time.Second
)

// steadyLog passes records on to a writer that might block for ever: a pipe that is full, or a terminal after Ctrl-S.
// The code that keeps or ends a leadership must not wait for it. Records that do not fit are dropped, and counted.
type steadyLog struct {
	records chan []byte   // Write sends, end closes, pass receives
	done    chan struct{} // closed when all is passed on

	mu      sync.Mutex
	ended   bool // guarded by mu, as is dropped
	dropped int  // since the last record that was sent
}

// newSteadyLog returns the log, and a function that ends it once all has been written, or after logPatience.
func newSteadyLog(w io.Writer) (log *steadyLog, end func()) {
	l := &steadyLog{records: make(chan []byte, logBacklog), done: make(chan struct{})}
	go l.pass(w)
	return l, l.end
}

// Write never blocks, and never fails.
func (l *steadyLog) Write(record []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return len(record), nil
	}
	text := append([]byte(nil), record...)
	if l.dropped > 0 {
		text = append(fmt.Appendf(nil, "leadership: %d records of the log were left out: they were not read in time\n", l.dropped), text...)
	}
	select {
	case l.records <- text:
		l.dropped = 0
	default:
		l.dropped++
	}
	return len(record), nil
}

func (l *steadyLog) pass(w io.Writer) {
	defer close(l.done)
	writeInBackground()
	for record := range l.records {
		_, _ = w.Write(record) // there is no other place to say that it failed
	}
}

func (l *steadyLog) end() {
	l.mu.Lock()
	l.ended = true
	close(l.records)
	l.mu.Unlock()
	timer := time.NewTimer(logPatience)
	defer timer.Stop()
	select {
	case <-l.done:
	case <-timer.C:
	}
}
