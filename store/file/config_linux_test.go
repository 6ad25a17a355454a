package file

import (
	"os"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

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

// TestDirectoryIsAFile: Open says so.
func TestDirectoryIsAFile(t *testing.T) {
	file := t.TempDir() + "/file"
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, dir := range []string{file, file + "/store"} {
		_, err := Open(Config{Directory: dir})
		require.ErrorIs(t, err, store.ErrInvalid)
		require.ErrorContains(t, err, "no directory")
	}
}
