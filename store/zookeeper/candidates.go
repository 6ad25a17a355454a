package zookeeper

import "sync"

// candidates are the sessions whose ballots the driver has watched. If an operator deletes a leader's ballot, the leader's
// session, and its acknowledgement, stay until its work has stopped. The successor replaces the acknowledgement meanwhile
// (TestAcknowledgementOutlivesItsBallot).
type candidates struct {
	mu       sync.Mutex
	sessions map[int64]bool // guarded by mu
}

// mostCandidates bounds the memory.
const mostCandidates = 1 << 15

func (c *candidates) add(session int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sessions == nil || !c.sessions[session] && len(c.sessions) >= mostCandidates {
		c.sessions = map[int64]bool{}
	}
	c.sessions[session] = true
}

func (c *candidates) known(session int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sessions[session]
}
