package serve

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-leadership/leadership/store"
)

// The rates at which queues are read, one after the other. A queue is read soon after a change of its leader. While a
// browser looks, it is also read every 5 s, and so it is after a read that has failed: no more than 50 a second in all,
// so with more than 250 elections a round takes longer than 5 s. A request without a stream, for the metrics say, makes
// one round.
const (
	afterChange = 500 * time.Millisecond // from one read of a queue to the next, after changes
	readEvery   = 5 * time.Second
	readPace    = 20 * time.Millisecond
	readTimeout = 5 * time.Second
)

// readQueues reads the queues that are due, until the server is closed.
func (s *Server) readQueues() {
	for {
		e, wait := s.due(time.Now())
		if e != nil {
			s.readQueue(e)
			if !s.pause(wait) {
				return
			}
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-s.wake:
		case <-timer.C:
		case <-s.ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// wakeUp makes readQueues look what is due. It does not block.
func (s *Server) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// due returns the election whose queue is to be read next, and how long to pause after that; or how long to wait.
func (s *Server) due(now time.Time) (next *election, pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	looked := s.asked
	if s.published.streams > 0 {
		looked = now
	}
	pause = time.Second
	for _, e := range s.elections {
		switch {
		case e.Err != nil || e.Since.IsZero(): // it is not known whether the store answers
		case e.Queue.Behind && !e.failed && now.Sub(e.tried) >= afterChange:
			return e, 0
		case e.Queue.Behind && !e.failed:
			pause = min(pause, afterChange-now.Sub(e.tried))
		case e.Queue.Behind && now.Sub(e.tried) >= readEvery, looked.Sub(e.tried) >= readEvery:
			if next == nil || e.tried.Before(next.tried) {
				next = e
			}
		}
	}
	if next != nil {
		pause = readPace
	}
	return next, pause
}

// settled reports whether no queue is due or being read.
func (s *Server) settled() bool {
	e, _ := s.due(time.Now())
	s.mu.Lock()
	defer s.mu.Unlock()
	return e == nil && !s.reading
}

// readQueue reads the queue of an election. It costs one read of the store.
func (s *Server) readQueue(e *election) {
	s.mu.Lock()
	e.tried, s.reading = time.Now(), true
	before := e.Leader
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(s.ctx, readTimeout)
	defer cancel()
	ballots, err := s.Store.Ballots(ctx, e.Name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading = false
	if s.ctx.Err() != nil || s.elections[e.Name] != e {
		return
	}
	now := time.Now()
	old := e.Queue
	e.Queue, e.failed = old.next(ballots, err, now, e.Leader != before), err != nil
	if err == nil {
		_, held := e.Queue.held()
		s.metrics.Queue(e.Name, len(ballots), held)
	}
	if err != nil || old.Behind || old.Err != nil || !slices.Equal(old.Ballots, ballots) {
		s.published.dirty()
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
