// Package polls keeps track of a store's pending Leader calls.
//
// A store may say that it has been told of everything that happened before some moment (store.Store.Confirmed) only
// where no Leader call still has to look at what it was told of: the news that a leader has changed arrives first, and
// who leads now is read after that.
package polls

import "sync"

// Set is the calls that are pending. Its zero value is empty.
type Set struct {
	mu    sync.Mutex
	polls map[*Poll]struct{} // guarded by mu
}

// Poll is one pending call: it is looking, or waiting for events.
type Poll struct {
	set    *Set
	events []<-chan struct{} // guarded by the set's mu: what it waits for; none while it is looking
}

// Begin adds a call, which is looking. It has to be ended.
func (s *Set) Begin() *Poll {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.polls == nil {
		s.polls = map[*Poll]struct{}{}
	}
	p := &Poll{set: s}
	s.polls[p] = struct{}{}
	return p
}

// Wait says that the call waits for one of the channels to be closed. It may look meanwhile without having been told of
// anything: that does not matter. Without a channel, Wait says that the call is looking again.
func (p *Poll) Wait(events ...<-chan struct{}) {
	p.set.mu.Lock()
	defer p.set.mu.Unlock()
	p.events = events
}

// End removes the call.
func (p *Poll) End() {
	p.set.mu.Lock()
	defer p.set.mu.Unlock()
	delete(p.set.polls, p)
}

// Settled reports whether every call waits for something that has not happened.
func (s *Set) Settled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.polls {
		if len(p.events) == 0 {
			return false
		}
		for _, event := range p.events {
			select {
			case <-event:
				return false
			default:
			}
		}
	}
	return true
}
