package server

import (
	"context"
	"strings"
	"time"
)

// LeaderKey is the key of an election's acknowledgement.
func LeaderKey(election string) string { return "leader/" + election }

// watch answers with the state of a key, at once if it has another version than the one that the watcher knows. It
// waits for that otherwise.
func (s *Server) watch(ctx context.Context, q Request) Answer {
	timer := time.NewTimer(min(q.Wait, time.Minute))
	defer timer.Stop()
	for {
		s.mu.Lock()
		a := s.state(q.Key)
		if a.Version != q.Version || q.Wait <= 0 {
			s.mu.Unlock()
			return a
		}
		w := s.watches[q.Key]
		if w == nil {
			w = &watch{changed: make(chan struct{})}
			s.watches[q.Key] = w
		}
		w.waiting++
		s.mu.Unlock()
		select {
		case <-w.changed:
		case <-timer.C:
			q.Wait = 0
		case <-ctx.Done():
			q.Wait = 0
		}
		s.mu.Lock()
		if w.waiting--; w.waiting == 0 && s.watches[q.Key] == w {
			delete(s.watches, q.Key)
		}
		s.mu.Unlock()
	}
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

// changed wakes those who watch a key. The caller holds mu.
func (s *Server) changed(key string) {
	if w := s.watches[key]; w != nil {
		delete(s.watches, key)
		close(w.changed)
	}
}
