package file

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// TestRenewalHangs: the session is given up, although no other request hangs. Without that each TTL leaves another renewal
// behind, which waits for the first.
func TestRenewalHangs(t *testing.T) {
	waits(t)
	disk := newStuck()
	d := driverWith(t, configWith(t.TempDir()+"/store", 4*time.Second), disk)
	t.Cleanup(disk.end) // before the driver is closed
	d.asked.limit = 200 * time.Millisecond
	s := sessionOf(t, d)
	disk.match.Store(&match{op: "rename", path: "/s/"})
	require.ErrorContains(t, s.Keep(soon(t), func(engine.Proof) {}), "has not returned for")
}
