package file

import (
	"os"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestListedBallotHasItsValue: a ballot whose value is being written is not listed without it.
func TestListedBallotHasItsValue(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	other := openWith(t, c, kernel{})
	looked := false
	st := openWith(t, c, around{kernel{}, func(op, file string, call func() error) error {
		if op == "write" && strings.HasSuffix(path.Base(file), "value") && !looked {
			looked = true
			require.NoError(t, os.WriteFile(file, nil, 0o600)) // the kernel makes the file first
			list, err := other.Ballots(soon(t), "e")
			require.NoError(t, err)
			require.Empty(t, list)
		}
		return call()
	}})
	_, err := st.Cast(soon(t), "e", "one")
	require.NoError(t, err)
	require.True(t, looked)
	list, err := other.Ballots(soon(t), "e")
	require.NoError(t, err)
	require.Equal(t, "one", list[0].Value)
}
