package serve

import (
	"context"
	"errors"
	"time"

	"github.com/go-leadership/leadership/store"
)

// A queue is read when its leader has changed, and every 5 s while the page is asked for: one after the other, and no
// more than 50 a second in all, so with more than 250 elections a round takes longer than 5 s.
const (
	readEvery   = 5 * time.Second
	readPace    = 20 * time.Millisecond
	readTimeout = 5 * time.Second
)

// readQueues reads the queues that are due, until the server is closed.
func (s *Server) readQueues() {
	for s.ctx.Err() == nil {
		pause, wake := time.Second/2, s.wake
		if e := s.due(); e != nil {
			s.readQueue(e)
			pause, wake = readPace, nil
		}
		select {
		case <-time.After(pause):
		case <-wake:
		case <-s.ctx.Done():
		}
	}
}

// wakeUp makes readQueues look what is due. It does not block.
func (s *Server) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// due returns the election whose queue is to be read now: one whose leader has changed, or else the one that was read
// the longest ago. If there is none, due closes settled.
func (s *Server) due() (next *election) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.elections {
		e.blind = !e.Since.IsZero() && !e.follower.Fresh()
		if !e.changed && s.asked.Sub(e.tried) < readEvery {
			continue
		}
		if next == nil || e.changed && !next.changed || e.changed == next.changed && e.tried.Before(next.tried) {
			next = e
		}
	}
	if next == nil {
		close(s.settled)
		s.settled = make(chan struct{})
		return nil
	}
	next.tried, next.changed = time.Now(), false
	return next
}

// readQueue reads the queue of an election. It costs one read of the store.
func (s *Server) readQueue(e *election) {
	ctx, cancel := context.WithTimeout(s.ctx, readTimeout)
	defer cancel()
	ballots, err := s.Store.Ballots(ctx, e.Name)
	s.mu.Lock()
	defer s.mu.Unlock()
	e.Queue = e.Queue.next(ballots, err, time.Now(), e.changed)
	if err == nil && s.elections[e.Name] == e { // it is not forgotten
		_, held := e.Queue.held()
		s.metrics.Queue(e.Name, len(ballots), held)
	}
}

// next returns the queue after a read. The leader might have changed meanwhile. In an outage the queue stays: that it
// is stale is said of the election.
func (q Queue) next(ballots []store.Standing, err error, now time.Time, changed bool) Queue {
	if err != nil {
		q.Err = err
		if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome) {
			q.Err = nil
		}
		return q
	}
	before := q.first()
	q.Ballots, q.Read, q.Behind, q.Err = ballots, now, changed, nil
	if first := q.first(); first.Token != before.Token || q.First.IsZero() {
		q.First, q.Asked = now, time.Time{}
	}
	switch first := q.first(); {
	case !first.Asked:
		q.Asked = time.Time{}
	case q.Asked.IsZero():
		q.Asked = now
	}
	return q
}
