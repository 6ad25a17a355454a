package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

func TestPasswordFromEnvironmentOrFile(t *testing.T) {
	t.Setenv("STORE_PASSWORD", plantedPassword)
	t.Setenv("STORE_EMPTY", "")
	file, empty := filepath.Join(t.TempDir(), "password"), filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(file, []byte(plantedPassword+"\r\n"), 0o600))
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	for _, raw := range []string{"z://a@h?passwordenv=STORE_PASSWORD", "z://a@h?passwordfile=" + file} {
		u, err := store.ParseURL(raw)
		require.NoError(t, err)
		require.Equal(t, "a", u.User)
		require.Equal(t, plantedPassword, u.Password)
		u.Login()
		require.NoError(t, u.Check(), "an option of every URL with a login")
		for _, shown := range []string{fmt.Sprint(u), fmt.Sprintf("%+v", *u), fmt.Sprintf("%#v", u), fmt.Sprintf("%#v", *u)} {
			require.NotContains(t, shown, plantedPassword)
		}
	}
	for raw, says := range map[string]string{
		"z://a:x@h?passwordenv=STORE_PASSWORD":                    "given twice",
		"z://a:x@h?passwordfile=" + file:                          "given twice",
		"z://a@h?passwordenv=STORE_PASSWORD&passwordfile=" + file: "given twice",
		"z://a@h?passwordenv=STORE_NONE":                          "STORE_NONE",
		"z://a@h?passwordenv=STORE_EMPTY":                         "STORE_EMPTY",
		"z://a@h?passwordenv=":                                    "no such variable",
		"z://a@h?passwordfile=" + file + ".none":                  ".none",
		"z://a@h?passwordfile=" + empty:                           "empty",
		"z://a@h?passwordfile=":                                   "no such file",
		"z://a@h?passwordfile=" + filepath.Dir(file):              "directory",
	} {
		_, err := store.ParseURL(raw)
		require.ErrorIs(t, err, store.ErrInvalid, "%q", raw)
		require.ErrorContains(t, err, says, "%q", raw)
		require.NotContains(t, err.Error(), plantedPassword)
	}
}

func TestSessionOptions(t *testing.T) {
	for raw, want := range map[string]string{
		"z://h":                  "10s 3.333333333s",
		"z://h?ttl=30s":          "30s 10s",
		"z://h?ttl=30s&grace=5s": "30s 5s",
		"z://h?grace=1s":         "10s 1s",
	} {
		u, err := store.ParseURL(raw)
		require.NoError(t, err)
		ttl, grace := u.Session()
		require.NoError(t, u.Check())
		require.Equal(t, want, fmt.Sprint(ttl, " ", grace))
	}
	for _, raw := range []string{"z://h?ttl=0s", "z://h?grace=0s", "z://h?ttl=x", "z://h?grace="} {
		u, err := store.ParseURL(raw)
		require.NoError(t, err)
		u.Session()
		require.ErrorIs(t, u.Check(), store.ErrInvalid, raw)
	}
}
