package file

import (
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// TestFileSystems: file systems that other machines or containers might share are refused before anything is made.
func TestFileSystems(t *testing.T) {
	for kind, text := range map[uint32]string{
		ext4: "", xfs: "", btrfs: "", f2fs: "", tmpfs: "",
		overlay: "mount a volume", 0x6969: "NFS", 0x2fc12fc1: "0x2fc12fc1",
	} {
		dir := t.TempDir()
		d, err := newDriverWith(configIn(dir+"/store"), kernel{}, func(string) (uint32, error) { return kind, nil })
		if text == "" {
			require.NoError(t, err)
			require.Equal(t, kind != tmpfs, d.durable)
			require.NoError(t, d.Close())
		} else {
			require.ErrorIs(t, err, store.ErrInvalid)
			require.ErrorContains(t, err, text)
			require.ErrorContains(t, err, dir)
		}
		require.Len(t, files(t, dir), 1)
	}
	kind, err := fileSystem("/proc/self/no/such/directory")
	require.NoError(t, err)
	require.EqualValues(t, procfs, kind, "that of the nearest parent")
}
