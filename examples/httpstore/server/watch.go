package server

import (
	"context"
	"strings"
	"time"
)

// LeaderKey is the key of an election's acknowledgement.
func LeaderKey(election string) string { return "leader/" + election }

// watch answers with the states of keys that have another version than the watcher knows. If there is none, it waits
// until one has changed, another poll of the same watcher comes, or the time is over.
func (s *Server) watch(ctx context.Context, q Request) Answer {
	changed := make(chan struct{}, 1)
	s.mu.Lock()
	a := s.states(q.Watches)
	if len(a.States) > 0 || q.Wait <= 0 {
		s.mu.Unlock()
		return a
	}
	s.wait(q, changed)
	s.mu.Unlock()
	timer := time.NewTimer(min(q.Wait, time.Minute))
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(q, changed)
	return s.states(q.Watches)
}

// wait registers a channel for all keys. The caller holds mu, as with all below.
func (s *Server) wait(q Request, changed chan struct{}) {
	if before := s.polls[q.Poll]; before != nil {
		wake(before)
	}
	s.polls[q.Poll] = changed
	for _, w := range q.Watches {
		if s.waiting[w.Key] == nil {
			s.waiting[w.Key] = map[chan struct{}]bool{}
		}
		s.waiting[w.Key][changed] = true
	}
}

func (s *Server) leave(q Request, changed chan struct{}) {
	if s.polls[q.Poll] == changed {
		delete(s.polls, q.Poll)
	}
	for _, w := range q.Watches {
		delete(s.waiting[w.Key], changed)
		if len(s.waiting[w.Key]) == 0 {
			delete(s.waiting, w.Key)
		}
	}
}

// changed wakes those who wait for a change of a key.
func (s *Server) changed(key string) {
	for waiting := range s.waiting[key] {
		wake(waiting)
	}
}

func wake(waiting chan struct{}) {
	select {
	case waiting <- struct{}{}:
	default:
	}
}

// states returns the states of keys that are not as the watcher knows them.
func (s *Server) states(watches []Watch) Answer {
	a := Answer{Index: s.index, States: map[int]Answer{}}
	for i, w := range watches {
		if state := s.state(w.Key); state.Version != w.Version {
			a.States[i] = state
		}
	}
	return a
}

func (s *Server) state(key string) Answer {
	name, leader := strings.CutPrefix(key, LeaderKey(""))
	if e := s.entries[key]; e != nil && !leader {
		return e.Answer
	}
	if in := s.elections[name]; in != nil && leader {
		return Answer{Version: in.revision, Value: in.value}
	}
	return Answer{}
}
