//go:build mutants

package guard

import (
	"testing"

	"github.com/go-leadership/leadership/internal/lab/mutants"
)

// TestMutants checks that each mistake fails its test.
func TestMutants(t *testing.T) { mutants.Run(t, mistakes) }
