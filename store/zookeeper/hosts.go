package zookeeper

import "sync"

// hosts gives the client the servers in turn. The client waits a second, and fails the requests that are queued, each
// time Next says that all servers have been tried; its own provider says so at every redial of a single server. This
// one says so only when all have failed since the last connection. Names stay as they are, to be looked up at each
// dial.
type hosts struct {
	mu      sync.Mutex
	servers []string // guarded by mu, as are all below
	next    int
	tried   int // since the last connection
}

// Init implements zk.HostProvider.
func (h *hosts) Init(servers []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.servers = servers
	return nil
}

// Len implements zk.HostProvider.
func (h *hosts) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.servers)
}

// Next implements zk.HostProvider.
func (h *hosts) Next() (server string, allTried bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	server = h.servers[h.next]
	h.next = (h.next + 1) % len(h.servers)
	allTried = h.tried > 0 && h.tried%len(h.servers) == 0
	h.tried++
	return server, allTried
}

// Connected implements zk.HostProvider.
func (h *hosts) Connected() { h.answered() }

// answered is called for every handshake that a server has answered, if only to say that the session has expired.
func (h *hosts) answered() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tried = 0
}
