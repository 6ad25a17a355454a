package file

import (
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

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

// TestRenewalIsTriedAgainSoon: four tries in a row fail. If tries were a quarter of the TTL apart, there would be no fifth
// before the deadline.
func TestRenewalIsTriedAgainSoon(t *testing.T) {
	waits(t)
	var fail atomic.Int32
	c := configWith(t.TempDir()+"/store", 12*time.Second) // of which half is left after the four, for a slow machine
	st := openWith(t, c, failing{kernel{}, func(from string) bool {
		return strings.Contains(from, "/s/") && fail.Add(-1) >= 0
	}})
	b := lead(t, st, "one")
	<-b.Lease().Last().Changed
	renewed := b.Lease().Last()
	fail.Store(4)
	<-renewed.Changed
	require.NoError(t, b.Err())
	require.True(t, b.Lease().Last().Confirmed.After(renewed.Confirmed))
	require.Negative(t, fail.Load(), "a renewal has failed four times")
}
