package file

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// TestErrorsAreOfOneKind: a known outcome is not reported as unknown, nor the other way round.
func TestErrorsAreOfOneKind(t *testing.T) {
	err := explain(fmt.Errorf("%w: %w", store.ErrUnknownOutcome, syscall.EIO))
	require.NotErrorIs(t, err, store.ErrUnavailable)
	require.ErrorIs(t, explain(syscall.EIO), store.ErrUnavailable)
	require.ErrorIs(t, explain(syscall.EACCES), store.ErrDenied)
}
