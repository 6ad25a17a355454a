//go:build mutants

package file

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMutants: each mutant fails its test.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			source, err := os.ReadFile(m.file)
			require.NoError(t, err)
			path, err := filepath.Abs(m.file)
			require.NoError(t, err)
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(dir+"/mutant.go", []byte(strings.Replace(string(source), m.right, m.wrong, 1)), 0o666))
			overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{path: dir + "/mutant.go"}})
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(dir+"/overlay.json", overlay, 0o666))
			output, err := exec.CommandContext(t.Context(), "go", "test", "-overlay", dir+"/overlay.json", "-count=1", "-timeout=3m",
				"-run", "^"+m.test, ".").CombinedOutput()
			require.Error(t, err, "no test fails")
			test, _, _ := strings.Cut(strings.TrimSuffix(m.test, "$"), "/")
			failed := strings.Contains(string(output), "--- FAIL: "+test) || strings.Contains(string(output), "panic: test timed out")
			require.True(t, failed, "another thing has failed: %s", output)
		})
	}
}
