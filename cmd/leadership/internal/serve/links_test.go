package serve

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page links nothing but the standard library and the packages of this repository.
func TestLinksTheStandardLibraryAlone(t *testing.T) {
	output, err := exec.Command("go", "list", "-deps").Output()
	require.NoError(t, err)
	require.Contains(t, string(output), "github.com/go-leadership/leadership/cmd/leadership/internal/serve\n")
	for linked := range strings.Lines(string(output)) {
		domain, _, _ := strings.Cut(linked, "/")
		require.False(t, strings.Contains(domain, ".") && !strings.HasPrefix(linked, "github.com/go-leadership/leadership"), "%s is linked", linked)
	}
}
