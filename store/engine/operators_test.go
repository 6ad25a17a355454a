package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// lister is a driver that lists elections.
type lister struct {
	Driver
	answers []any // names, or an error
}

func (l *lister) Elections(context.Context) ([]string, error) {
	answer := l.answers[0]
	l.answers = l.answers[1:]
	err, _ := answer.(error)
	names, _ := answer.([]string)
	return names, err
}

func (*lister) Confirm(context.Context) error { return nil }
func (*lister) Close() error                  { return nil }

// TestElections are sorted, each once, and names. A request without an answer is sent again. A denial is final.
func TestElections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &lister{answers: []any{errUnsent, []string{"b", "a/b", "_void", "b", "a__b", ""}, store.ErrDenied}}
		e := New(d, Settings{Name: "script", TTL: time.Second, Pace: time.Second / 4, VirtualTime: true})
		defer e.Close()
		require.False(t, e.Worked())
		names, err := e.Elections(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"a/b", "b"}, names)
		require.True(t, e.Worked())
		_, err = e.Elections(t.Context())
		require.ErrorIs(t, err, store.ErrDenied)
	})
}
