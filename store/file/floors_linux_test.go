package file

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOldFloorsGoWhenOthersAreDurable: floors are removed when those that replace them are durable, and the highest end
// stays, also if its floor is low.
func TestOldFloorsGoWhenOthersAreDurable(t *testing.T) {
	var calls []string // those that concern floors
	c := configIn(t.TempDir() + "/store")
	d := driverWith(t, c, around{kernel{}, func(op, path string, call func() error) error {
		if strings.HasPrefix(path, c.Directory+"/f") && op != "readdir" && op != "lstat" && op != "chmod" {
			calls = append(calls, op)
		}
		return call()
	}})
	require.NoError(t, d.make())
	calls = nil
	const end = 1 << 40
	for floor := range uint64(10) {
		f := floors{floor: 1000 + floor, end: end - floor}
		require.NoError(t, d.ops.symlink("-", d.floorPath(f)))
	}
	d.forgetFloors()
	last, first := slices.Index(calls, "fsync"), slices.Index(calls, "unlink")
	require.Equal(t, 10, last, "%v", calls)
	require.Equal(t, -1, first, "each of those that are lower has a higher end: %v", calls)

	require.NoError(t, d.ops.symlink("-", d.floorPath(floors{floor: 2000, end: end})))
	calls = nil
	d.forgetFloors()
	require.Equal(t, "fsync", calls[0], "%v", calls)
	require.Equal(t, "unlink", calls[1], "%v", calls)
	f, err := d.ops.list(d.floorDir())
	require.NoError(t, err)
	require.Len(t, f, 4, "a listing that is under way finds one of them")
}
