package zookeeper

import (
	"sync/atomic"
	"time"
)

// hosts gives the client the servers in turn. The client waits a second each time Next says that all servers have been
// tried, and sees only then that it has been closed; dial waits for a shorter time, so that Next says so only at the
// end (TestServerRestarts). Names stay as they are, to be looked up at each dial. But for closed, it is of the goroutine of
// the client's that connects.
type hosts struct {
	servers []string
	next    int
	tried   int         // since a connection worked
	silent  int         // how many handshakes have timed out since one was answered
	dialled time.Time   // when the last server was dialled
	up      time.Time   // when the handshake of the present connection was answered; zero if it was not
	closed  atomic.Bool // the client is being closed
}

// Init implements zk.HostProvider.
func (h *hosts) Init(servers []string) error {
	h.servers = servers
	return nil
}

// Len implements zk.HostProvider.
func (h *hosts) Len() int { return len(h.servers) }

// Next implements zk.HostProvider.
func (h *hosts) Next() (server string, wait bool) {
	server = h.servers[h.next]
	h.next = (h.next + 1) % len(h.servers)
	h.tried++
	return server, h.closed.Load()
}

// The pause between two dials, once each server has been tried: it doubles, so that an outage makes no more than four
// connections a second (TestServerHangsUpAfterTheHandshake). A connection has worked if it has lasted for steady.
const (
	leastPause = 50 * time.Millisecond
	mostPause  = 250 * time.Millisecond
	steady     = time.Second
)

// round tells of the server that Next has just returned how many rounds through all servers have failed since a connection
// worked, and how long to wait before it is dialled.
func (h *hosts) round() (failed int, wait time.Duration) {
	if !h.up.IsZero() && time.Since(h.up) >= steady {
		h.tried = 1
	}
	h.up = time.Time{}
	if again := h.tried - len(h.servers); again > 0 {
		wait = max(0, min(leastPause<<min(again-1, 10), mostPause)-time.Since(h.dialled))
	}
	h.dialled = time.Now().Add(wait)
	return (h.tried - 1) / len(h.servers), wait
}

// timedOut tells that a server has left a handshake without an answer for as long as it was given.
func (h *hosts) timedOut() { h.silent++ }

// Connected implements zk.HostProvider. The wire has read the answer to the handshake before, and called answered.
func (h *hosts) Connected() {}

// answered is called for every handshake that a server has answered. If that says that the session has expired, the next
// handshake, which makes a new one, follows at once.
func (h *hosts) answered(expired bool) {
	h.silent, h.up = 0, time.Now()
	if expired {
		h.dialled = time.Time{}
	}
}
