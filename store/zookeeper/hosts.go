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
	tried   int         // since the last connection
	silent  int         // how many handshakes have timed out since the last connection
	began   time.Time   // when the last round through all servers began
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

// redial is how long after another a round through all servers begins, if they all fail.
const redial = 250 * time.Millisecond

// round tells of the server that Next has just returned how many rounds through all servers have failed since the last
// connection, and how long to wait before it is dialled.
func (h *hosts) round() (failed int, wait time.Duration) {
	failed = (h.tried - 1) / len(h.servers)
	if (h.tried-1)%len(h.servers) == 0 {
		if failed > 0 {
			wait = max(0, redial-time.Since(h.began))
		}
		h.began = time.Now().Add(wait)
	}
	return failed, wait
}

// timedOut tells that a server has left a handshake without an answer for as long as it was given.
func (h *hosts) timedOut() { h.silent++ }

// Connected implements zk.HostProvider. The wire has read the answer to the handshake before, and called answered.
func (h *hosts) Connected() {}

// answered is called for every handshake that a server has answered, if only to say that the session has expired.
func (h *hosts) answered() { h.tried, h.silent = 0, 0 }
