//go:build mutants

package lifeline

import (
	"testing"

	"github.com/go-leadership/leadership/internal/lab/mutants"
)

// TestMutants: each mistake fails its test.
func TestMutants(t *testing.T) { mutants.Run(t, mistakes) }

// TestMutantsAboutUsers is the same for those that take another user's processes.
func TestMutantsAboutUsers(t *testing.T) {
	needsRoot(t)
	mutants.Run(t, mistakesAboutUsers)
}
