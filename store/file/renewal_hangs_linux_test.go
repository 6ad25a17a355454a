package file

import (
	"context"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// TestRenewalHangs: the session is given up, although no other request hangs. Without that each TTL leaves another renewal
// behind, which waits for the first.
func TestRenewalHangs(t *testing.T) {
	disk := newStuck()
	c := configIn(t.TempDir() + "/store")
	c.TTL = 200 * time.Millisecond
	d := driverWith(t, c, disk)
	t.Cleanup(disk.end) // before the driver is closed
	d.asked.limit = c.TTL
	s := sessionOf(t, d)
	disk.match.Store(&match{op: "rename", path: "/s/"})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.ErrorContains(t, s.Keep(ctx, func(engine.Proof) {}), "has not returned for")
}
