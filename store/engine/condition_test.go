package engine

import (
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// conditioned is a session whose service has transactions.
type conditioned struct{ Session }

func (conditioned) Condition(e Entry) any { return e.Token }

// TestCondition is that of the ballot's entry, from when the ballot is known to be first, also when it is lost: then the
// service refuses.
func TestCondition(t *testing.T) {
	playLeading(t, func(t *testing.T, s *scene, b *ballot, _ *request) {
		condition, err := b.Condition()
		require.NoError(t, err)
		require.Nil(t, condition, "the driver has none")
		waiting := s.cast(2, Place{Nearest: b.entry.Key})
		b.session.driver = conditioned{b.session.driver}
		_, err = waiting.Condition()
		require.ErrorIs(t, err, store.ErrNotFirst)
		b.lose(store.ErrLost)
		condition, err = b.Condition()
		require.NoError(t, err)
		require.EqualValues(t, 1, condition)
	})
}
