package file

import (
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// failing is a disk on which some renames fail.
type failing struct {
	ops
	fails func(from string) bool
}

func (f failing) rename(from, to string) error {
	if f.fails(from) {
		return &os.PathError{Op: "rename", Path: from, Err: syscall.EIO}
	}
	return f.ops.rename(from, to)
}

// TestRenewalIsTriedAgainSoon: renewals fail until most of the TTL is over.
func TestRenewalIsTriedAgainSoon(t *testing.T) {
	var until atomic.Int64
	c := configIn(t.TempDir() + "/store")
	c.TTL, c.Grace = 2*ttl, ttl/5
	st := openWith(t, c, failing{kernel{}, func(from string) bool {
		return strings.Contains(from, "/s/") && int64(bootTime()) < until.Load()
	}})
	b := lead(t, st, "one")
	<-b.Lease().Last().Changed
	until.Store(int64(bootTime() + c.TTL*4/5)) // between the tries, which come each quarter of the TTL otherwise
	renewed := b.Lease().Last()
	<-renewed.Changed
	require.NoError(t, b.Err())
	require.True(t, b.Lease().Last().Confirmed.After(renewed.Confirmed))
}
