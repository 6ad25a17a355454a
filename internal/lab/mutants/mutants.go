// Package mutants makes mistakes in a package's source, one at a time, and expects a test to fail.
package mutants

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/whole"
	"github.com/stretchr/testify/require"
)

// Mutant is a mistake in one place: in File, Wrong replaces Right. Then the test fails.
// It is an alias, so that a table has a line for each and no names of fields.
type Mutant = struct{ Name, File, Right, Wrong, Test string }

// Check requires that each line that a mutant changes is there, once.
func Check(t *testing.T, all []Mutant) {
	for _, m := range all {
		source, err := os.ReadFile(m.File)
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(source), m.Right), "%s: %s in %s", m.Name, m.Right, m.File)
	}
}

// Run requires that each mutant fails its test, or hangs it. The working directory is the package's.
func Run(t *testing.T, all []Mutant) {
	for _, m := range all {
		t.Run(m.Name, func(t *testing.T) {
			source, err := os.ReadFile(m.File)
			require.NoError(t, err)
			path, err := filepath.Abs(m.File)
			require.NoError(t, err)
			dir := t.TempDir()
			require.NoError(t, os.WriteFile(dir+"/mutant.go", []byte(strings.Replace(string(source), m.Right, m.Wrong, 1)), 0o666))
			overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{path: dir + "/mutant.go"}})
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(dir+"/overlay.json", overlay, 0o666))
			cmd := exec.CommandContext(t.Context(), "go", "test", "-overlay", dir+"/overlay.json", "-count=1", "-timeout=3m",
				"-run", "^"+m.Test, ".")
			cmd.Env = append(os.Environ(), whole.Variable+"=all")
			output, err := cmd.CombinedOutput()
			require.Error(t, err, "no test fails")
			test, _, _ := strings.Cut(strings.TrimSuffix(m.Test, "$"), "/")
			failed := strings.Contains(string(output), "--- FAIL: "+test) || strings.Contains(string(output), "panic: test timed out")
			require.True(t, failed, "another thing has failed: %s", output)
		})
	}
}
