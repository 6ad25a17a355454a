package file

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// TestErrorsAreOfOneKind: a known outcome is not reported as unknown, nor the other way round.
func TestErrorsAreOfOneKind(t *testing.T) {
	d := driverWith(t, configIn(t.TempDir()+"/store"), kernel{})
	s := &enterer{t: t, s: sessionOf(t, d)}
	entry := s.enter()
	s.remove(entry)
	_, err := s.s.Acknowledge(soon(t), entry, "value")
	require.ErrorIs(t, err, engine.ErrGone)
	require.NotErrorIs(t, err, store.ErrUnavailable)
	require.NoError(t, s.s.End(soon(t), nil))
	_, err = s.s.Acknowledge(soon(t), entry, "value")
	require.ErrorIs(t, err, engine.ErrOver)
	require.NotErrorIs(t, err, store.ErrUnavailable)
	err = explain(fmt.Errorf("%w: %w", store.ErrUnknownOutcome, syscall.EIO))
	require.NotErrorIs(t, err, store.ErrUnavailable)
	require.ErrorIs(t, explain(syscall.EIO), store.ErrUnavailable)
	require.ErrorIs(t, explain(syscall.EACCES), store.ErrDenied)
}
