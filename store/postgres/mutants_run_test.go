//go:build mutants

package postgres_test

import (
	"testing"

	"github.com/go-leadership/leadership/internal/lab/mutants"
)

// TestMutants: each mistake fails its test.
func TestMutants(t *testing.T) { mutants.Run(t, mistakes) }
