package adapter

import (
	"errors"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// conditioned is a ballot with a condition.
type conditioned struct {
	store.Ballot
	condition any
	err       error
}

func (c conditioned) Condition() (any, error) { return c.condition, c.err }

func TestCondition(t *testing.T) {
	condition, err := Condition[int](conditioned{condition: 7}, "etcd")
	require.NoError(t, err)
	require.Equal(t, 7, condition)
	_, err = Condition[int](conditioned{err: store.ErrNotFirst}, "etcd")
	require.ErrorIs(t, err, store.ErrNotFirst)
	for name, b := range map[string]store.Ballot{
		"nil": nil, "a fake": struct{ store.Ballot }{}, "a store without conditions": conditioned{}, "another store": conditioned{condition: "7"},
	} {
		_, err = Condition[int](b, "etcd")
		require.ErrorIs(t, err, errors.ErrUnsupported, name)
		require.ErrorContains(t, err, "needs a ballot of the store for etcd")
	}
}
