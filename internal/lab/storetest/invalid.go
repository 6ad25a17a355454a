package storetest

import (
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// RequireInvalid checks that an error refuses a field and shows the parts given: values and limits.
func RequireInvalid(t testing.TB, err error, field string, parts ...string) {
	t.Helper()
	require.ErrorIs(t, err, store.ErrInvalid)
	var refused *store.FieldError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, field, refused.Field)
	for _, part := range parts {
		require.ErrorContains(t, err, part)
	}
}
