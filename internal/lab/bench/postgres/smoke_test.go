package postgres

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestContenders runs what the benchmarks need of each contender once: candidates that take turns and, if the TTL is
// short, a leader that is killed.
func TestContenders(t *testing.T) {
	for _, c := range contenders {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			g := newGroup(t, s, c, "smoke", 3, 2, short)
			for range 2 {
				g.change(t)
				g.reenter(t)
			}
			require.Positive(t, s.statements(t, c.statements))
			require.Positive(t, s.connections(t))
			if c.ttl(short) > short {
				return
			}
			a := newSuccession(t, s, c, "crash")
			defer a.end()
			last, leads := a.holder.led(t)
			require.True(t, leads)
			require.WithinDuration(t, time.Now(), last, watchdog)
			a.holder.signal(t, syscall.SIGKILL)
			receive(t, a.leads, "the successor to lead")
		})
	}
}
