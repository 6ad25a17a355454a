package file

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// TestLateRenewalDoesNotCount: the deadline passes before a renewal, or during it. Processes that may only read count the
// session as over by then, so it must not come back.
func TestLateRenewalDoesNotCount(t *testing.T) {
	for name, during := range map[string]bool{"before": false, "during": true} {
		t.Run(name, func(t *testing.T) {
			var late atomic.Int64 // by how much the clock is ahead
			var renames atomic.Int32
			c := configIn(t.TempDir() + "/store")
			d := driverWith(t, c, around{kernel{}, func(op, path string, call func() error) error {
				if op == "rename" && strings.Contains(path, "/s/") {
					renames.Add(1)
					defer late.Store(int64(c.TTL))
				}
				return call()
			}})
			d.clock = func() time.Duration { return bootTime() + time.Duration(late.Load()) }
			s := sessionOf(t, d).(*session)
			if !during {
				late.Store(int64(c.TTL))
			}
			require.ErrorIs(t, s.renew(), engine.ErrOver)
			require.Equal(t, during, renames.Load() > 0)
			require.NoDirExists(t, d.sessionDir(s.id))
		})
	}
}
