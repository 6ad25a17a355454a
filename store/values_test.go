package store_test

import (
	"strings"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

func TestCheckValueTakesAnyBytes(t *testing.T) {
	for _, value := range []string{
		"", "dbhost2:4567", "a\nb", "\x00", "\xff\xfe", "日本語 \U0001F680", strings.Repeat("\x00", store.MaxValue),
	} {
		require.NoError(t, store.CheckValue(value))
	}
}

func TestCheckValueRefusesWhatIsTooLong(t *testing.T) {
	err := store.CheckValue(strings.Repeat("secret", store.MaxValue/6+1))
	require.ErrorIs(t, err, store.ErrInvalid)
	require.True(t, store.Permanent(err))
	require.EqualError(t, err, "invalid value: it has 131076 bytes, more than 131072")
	require.NotContains(t, err.Error(), "secret", "a value may be anything, it does not belong into a log")
}
