package zookeeper_test

import (
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/stretchr/testify/require"
)

// resource is what a leader writes to. It refuses tokens lower than the highest it has seen.
type resource struct {
	mu      sync.Mutex
	highest uint64   // guarded by mu, as is writers
	writers []string // of the writes that got in, without repetition
}

func (r *resource) write(token uint64, writer string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token < r.highest {
		return false
	}
	r.highest = token
	if n := len(r.writers); n == 0 || r.writers[n-1] != writer {
		r.writers = append(r.writers, writer)
	}
	return true
}

// The leader is cut off from the service, another one leads, and the line heals. The old leader has stopped before the
// new one began, and the resource accepts none of its later writes, not even those of work that did not stop.
func TestLeaderIsCutOff(t *testing.T) {
	election := newElection()
	network := conformance.NewNetwork()
	config := zookeeper.Config{Servers: sharedServer(t).Addrs()}
	config.Dial = network.Dial
	a := contend(t, open(t, config), election, "a")
	old := receive(t, a.Terms, "a leads")
	config.Dial = nil
	next := contend(t, open(t, config), election, "b")
	eventually(t, func() bool { return len(values(t, next.Store, election)) == 2 }, "b stands")
	oneLeader(t, a, next)

	var r resource
	require.True(t, r.write(old.Token(), "a"))
	network.Cut()
	deadline := old.Deadline()
	receive(t, old.Context().Done(), "a steps down, although it receives nothing")
	require.False(t, a.IsLeader())
	term := receive(t, next.Terms, "b leads")
	require.Greater(t, time.Since(deadline), ttl/3, "the grace lies between the two")
	require.True(t, r.write(term.Token(), "b"))
	network.Heal()
	require.False(t, r.write(old.Token(), "a"), "work that was under way")
	eventually(t, func() bool { return len(values(t, next.Store, election)) == 2 }, "a stands again")
	require.True(t, next.IsLeader(), "the new leader stays")
	next.End()
	again := receive(t, a.Terms, "a leads again")
	require.True(t, r.write(again.Token(), "a"))
	require.False(t, r.write(term.Token(), "b"))
	require.Equal(t, []string{"a", "b", "a"}, r.writers)
}
