package testserver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLastLines(t *testing.T) {
	long := "ERROR: " + strings.Repeat("x", reportColumns)
	log := []byte("INFO all is well\nFATAL: one\njava.net.BindException: Address already in use\n" + `{"level":"error"}` + "\nno errors here\n" + long + "\n")
	require.Equal(t, "java.net.BindException: Address already in use\n"+`{"level":"error"}`+"\n"+long[:reportColumns], lastLines(log, 3, errorLine))
	require.Equal(t, "no errors here\n"+long[:reportColumns], lastLines(log, 2, anyLine))
	require.Equal(t, "all is well", startLines([]byte("all is well")), "a server that says nothing of errors")
}

// requireLogsKept checks what the output of a failed test has of a service's logs.
func requireLogsKept(t *testing.T, s *service, mention string) {
	t.Helper()
	report := s.KeepLogs()
	where, errs, _ := strings.Cut(report, "\n")
	dir := strings.TrimPrefix(where, "the servers' logs are in ")
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.Contains(t, errs, mention)
	require.LessOrEqual(t, strings.Count(errs, "\n"), reportLines)
	for i, m := range s.members {
		kept, err := os.ReadFile(filepath.Join(dir, "member"+string(rune('0'+i))+".log"))
		require.NoError(t, err)
		log, err := os.ReadFile(m.logFile())
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(log), string(kept)), "all of it up to now")
		require.Contains(t, string(kept), mention)
	}
}
