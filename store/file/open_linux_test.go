package file

import (
	"os"
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

// TestVersion: a directory with another layout is refused, also if it was made after the store was opened.
func TestVersion(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	early := openWith(t, c, kernel{})
	lead(t, openWith(t, c, kernel{}), "value")
	text, err := os.ReadFile(c.Directory + "/version")
	require.NoError(t, err)
	require.Regexp(t, `^2\n`, string(text))
	for _, other := range []string{"1\n", "3\n", "", "new"} {
		require.NoError(t, os.WriteFile(c.Directory+"/version", []byte(other), 0o600))
		_, err = Open(c)
		require.ErrorIs(t, err, store.ErrInvalid)
		require.ErrorContains(t, err, "version 2")
		_, err = early.Cast(soon(t), "e", "value")
		require.ErrorIs(t, err, store.ErrInvalid)
	}
}

func TestURL(t *testing.T) {
	dir := t.TempDir() + "/a b"
	for raw, text := range map[string]string{
		"file://" + dir: "", "file://" + dir + "/?ttl=100ms&grace=20ms": "",
		"file://":                       "file:///directory",
		"file:///":                      "file:///directory",
		"file://home/me":                "three slashes",
		"file://u:p@/tmp/x":             "no user",
		"file:///tmp/../x":              "..",
		"file:///tmp/x?ttl=1ms":         "ttl",
		"file:///tmp/x?ttl=25h":         "ttl",
		"file:///tmp/x?grace=5s":        "grace",
		"file:///tmp/x?grace=0.1s":      "grace",
		"file:///tmp/x?mode=7":          `unknown option "mode"; it knows grace, ttl`,
		"file:///tmp/x?passwordenv=PWD": "no user",
	} {
		st, err := store.Open(t.Context(), raw, nil)
		if text == "" {
			require.NoError(t, err)
			require.Equal(t, "file://"+dir, st.(*Store).String())
			require.NoError(t, st.Close())
			continue
		}
		require.ErrorIs(t, err, store.ErrInvalid, raw)
		require.ErrorContains(t, err, text)
	}
	require.NoDirExists(t, dir, "Open makes nothing")
}
