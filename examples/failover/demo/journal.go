package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// timeLayout is that of the example's lines. All processes are on this machine and read the same clock, so their times
// can be compared.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// event is a line that a process printed.
type event struct {
	at   time.Time
	who  string
	what string // as printed: "elected token=12"
}

func parseEvent(line string) (event, error) {
	at, rest, _ := strings.Cut(line, " ")
	who, what, ok := strings.Cut(rest, " ")
	t, err := time.Parse(timeLayout, at)
	if err != nil || !ok {
		return event{}, fmt.Errorf("%q is not a time, a name and an event", line)
	}
	return event{t, who, what}, nil
}

func (e event) String() string {
	return fmt.Sprintf("%s %-8s %s", e.at.Format(timeLayout), e.who, e.what)
}

// token returns with which token a candidate was elected, if that is what the event tells.
func (e event) token() (token uint64, ok bool) {
	_, err := fmt.Sscanf(e.what, "elected token=%d", &token)
	return token, err == nil
}

// name returns of which leader the follower heard, if that is what the event tells.
func (e event) name() (name string, ok bool) {
	_, err := fmt.Sscanf(e.what, "leader name=%q", &name)
	return name, err == nil
}

func (e event) elected() bool { _, ok := e.token(); return ok }

func (e event) leader() bool { _, ok := e.name(); return ok }

// names returns of whom the events tell.
func names(events []event) []string {
	var list []string
	for _, e := range events {
		name, _ := e.name()
		list = append(list, name)
	}
	return list
}

// journal holds the events of all processes and shows them as they come.
type journal struct {
	mu      sync.Mutex
	out     io.Writer     // guarded by mu, as are all below
	events  []event       // of each process in its own order
	changed chan struct{} // closed and replaced with each event
}

func newJournal(out io.Writer) *journal { return &journal{out: out, changed: make(chan struct{})} }

func (j *journal) add(e event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	fmt.Fprintln(j.out, e)
	j.events = append(j.events, e)
	close(j.changed)
	j.changed = make(chan struct{})
}

// note adds what the demo itself does now, and returns the time.
func (j *journal) note(what string) time.Time {
	e := event{time.Now().UTC().Round(0), "demo", what} // Round: by the wall clock, as the others
	j.add(e)
	return e.at
}

// await returns the nth event of a kind, counted from 1, as soon as it has happened.
func (j *journal) await(ctx context.Context, n int, kind func(event) bool) (event, error) {
	for {
		j.mu.Lock()
		found, changed := filter(j.events, kind), j.changed
		j.mu.Unlock()
		if len(found) >= n {
			return found[n-1], nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return event{}, context.Cause(ctx)
		}
	}
}

// all returns the events of a kind so far.
func (j *journal) all(kind func(event) bool) []event {
	j.mu.Lock()
	defer j.mu.Unlock()
	return filter(j.events, kind)
}

func filter(events []event, kind func(event) bool) []event {
	var found []event
	for _, e := range events {
		if kind(e) {
			found = append(found, e)
		}
	}
	return found
}
