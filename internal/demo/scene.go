package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-leadership/leadership/store"
)

// scene is what the play is given on. All of it belongs to the goroutine that plays.
type scene struct {
	program string // this one
	url     string // of the store
	address string // the same without a password, to be shown
	store   store.Store
	bounds  bounds
	pace    time.Duration
	view    view

	in     *os.File      // the processes print into it
	events chan event    // sent and closed by read: what they printed
	exits  chan *process // sent by process.run: those that have ended
	closed chan struct{} // closed by close
	tick   *time.Ticker

	began     time.Time           // the demo
	logged    []event             // so far
	queue     []string            // who stands, first in line first; nil until known
	leader    string              // empty if there is none
	term      turn                // that leader's
	known     string              // who leads, as far as the follower knows
	turns     []turn              // so far; the last might be under way
	processes map[string]*process // by name, the latest
	err       error               // why the play ends early; nothing more is done then
}

// lookEvery is how often the queue is read, and a screen redrawn, while nothing happens. lookFor is how long reading the
// queue may take.
const (
	lookEvery = 100 * time.Millisecond
	lookFor   = time.Second
)

// open begins to read what the processes print.
func (s *scene) open() error {
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	s.in, s.events, s.closed = in, make(chan event), make(chan struct{})
	s.exits = make(chan *process, len(cast)+1) // room for all: one of them is started twice
	s.processes = map[string]*process{}
	s.tick = time.NewTicker(lookEvery)
	s.began = time.Now()
	go s.read(out) // close waits for it
	return nil
}

// close ends all processes and returns when nothing of the scene is left.
func (s *scene) close() {
	for _, p := range s.processes {
		_ = p.signal(os.Kill) // frozen or not
		<-p.exited
	}
	close(s.closed)
	s.in.Close() // after the processes': the end for read
	for range s.events {
	}
	s.tick.Stop()
}

// read sends the events that the processes print.
func (s *scene) read(out *os.File) {
	defer close(s.events)
	defer out.Close()
	in := json.NewDecoder(out)
	for {
		var e event
		err := in.Decode(&e)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			e = event{What: garbled, Text: err.Error()}
		}
		select {
		case s.events <- e:
		case <-s.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

// until handles what happens until done returns true, or there is an error. It gives up after limit.
func (s *scene) until(ctx context.Context, limit time.Duration, what string, done func() bool) {
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for s.err == nil && !done() {
		select {
		case e := <-s.events:
			s.handle(e)
		case p := <-s.exits:
			if p.fate == resigned && p.err == nil {
				p.fate = gone
			} else if p.fate != killed {
				s.fail("process %s ended by itself: %v", p.name, p.cmd.ProcessState)
			}
		case <-s.tick.C:
			s.look(ctx)
		case <-timeout.C:
			s.fail("waited %v in vain for %s", limit, what)
		case <-ctx.Done():
			s.err = context.Cause(ctx)
		}
		s.err = cmp.Or(s.err, s.view.refresh(s))
	}
}

// fail ends the play, for the first reason.
func (s *scene) fail(format string, args ...any) { s.err = cmp.Or(s.err, fmt.Errorf(format, args...)) }

// look reads the queue. If the store can't be read, the queue stays as it is.
func (s *scene) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	ballots, err := s.store.Ballots(ctx, election)
	if err != nil {
		return
	}
	s.queue = make([]string, len(ballots))
	for i, b := range ballots {
		s.queue[i] = b.Value
	}
}

// note records and shows what the demo itself did at that time.
func (s *scene) note(at time.Time, format string, args ...any) {
	if s.err == nil {
		// Round leaves the time of the wall clock, which the others tell.
		s.handle(event{At: at.Round(0), Who: "demo", Text: fmt.Sprintf(format, args...)})
	}
}

// handle records an event and shows it. The play fails if the event breaks a promise.
func (s *scene) handle(e event) {
	s.logged = append(s.logged, e)
	s.err = cmp.Or(s.err, s.view.event(e))
	t := s.turn()
	switch e.What {
	case elected:
		// The end of the last term comes first, unless its leader can't say it.
		if t.leader != "" {
			s.fail("%s was elected, and nothing was done to %s", e.Who, t.leader)
		} else if s.leader != "" && s.processes[s.leader].fate != frozen {
			s.fail("%s was elected while %s led", e.Who, s.leader)
		}
		t.leader, t.token, t.took = e.Who, e.Token, e.At.Sub(t.began)
		s.leader, s.term = e.Who, *t
	case ended:
		if s.leader == e.Who {
			s.leader = ""
		}
		switch p := s.processes[e.Who]; p.fate {
		case "":
			s.fail("%s %s; and nothing was done to it", e.Who, e.Text)
		case woken:
			p.fate = ""
		}
	case woke:
		if e.Leads {
			s.fail("%s saw itself as leader when it woke, and %s led", e.Who, s.leader)
		}
	case learnt:
		s.known = e.Name
		if e.Name != "" && e.Name != t.leader {
			s.fail("the follower was told that %s leads, and the last to be elected was %q", e.Name, t.leader)
		} else if e.Name != "" && t.knew == 0 {
			t.knew = e.At.Sub(t.began)
		}
	case garbled:
		s.fail("a process printed what the demo can't read: %s", e.Text)
	}
}
