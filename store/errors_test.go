package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// conditions are all the properties of errors that callers check: whether they are permanent, and whether they are
// denials.
var conditions = map[error]struct{ permanent, refused bool }{
	store.ErrLost:           {false, false},
	store.ErrNotFirst:       {false, false},
	store.ErrClosed:         {true, true},
	store.ErrInvalid:        {true, true},
	store.ErrDenied:         {false, true}, // a service denies also while it can't read its own permissions
	store.ErrUnavailable:    {false, false},
	store.ErrUnknownOutcome: {false, false},
}

func TestPermanent(t *testing.T) {
	for condition, is := range conditions {
		for _, err := range []error{
			condition,
			fmt.Errorf("%w: more", condition),
			&store.Error{Op: "cast", Store: "memory://", Err: fmt.Errorf("%w: more", condition)},
			errors.Join(io.EOF, condition),
		} {
			require.Equal(t, is.permanent, store.Permanent(err), "%v", err)
			require.Equal(t, is.refused, store.Refused(err), "%v", err)
		}
	}
	require.False(t, store.Permanent(nil))
	require.False(t, store.Permanent(io.EOF))
	require.False(t, store.Permanent(context.Canceled))
	require.True(t, store.Permanent(&store.FieldError{Field: "ttl", Reason: "it is too short"}))
	require.True(t, store.Refused(errors.Join(store.ErrUnavailable, store.ErrDenied)))
}

func TestConditionsAreApart(t *testing.T) {
	for a := range conditions {
		for b := range conditions {
			wrapped := &store.Error{Op: "cast", Store: "memory://", Err: a}
			require.Equal(t, a == b, errors.Is(wrapped, b), "%v, %v", a, b)
		}
	}
}

func TestErrorText(t *testing.T) {
	cause := fmt.Errorf("%w: the session has ended", store.ErrLost)
	for want, err := range map[string]*store.Error{
		`acknowledge in election "a/b" on zookeeper://h:1/p: ballot lost: the session has ended`: {
			Op: "acknowledge", Store: "zookeeper://h:1/p", Election: "a/b", Err: cause,
		},
		`connect on memory://: ballot lost: the session has ended`: {Op: "connect", Store: "memory://", Err: cause},
	} {
		require.EqualError(t, err, want)
		require.ErrorIs(t, err, store.ErrLost)
		require.Equal(t, cause, errors.Unwrap(err))
	}
}

func TestErrorTextIsOneLine(t *testing.T) {
	err := &store.Error{Op: "cast", Store: "memory://", Election: "a\nlevel=INFO msg=forged", Err: store.ErrInvalid}
	require.NotContains(t, err.Error(), "\n")
}

func TestErrorsCanBeTakenApart(t *testing.T) {
	err := fmt.Errorf("start: %w", &store.Error{
		Op: "cast", Store: "memory://", Election: "a",
		Err: &store.FieldError{Field: "value", Reason: "it is too long"},
	})
	var op *store.Error
	require.ErrorAs(t, err, &op)
	require.Equal(t, "cast", op.Op)
	var field *store.FieldError
	require.ErrorAs(t, err, &field)
	require.Equal(t, "value", field.Field)
	require.ErrorIs(t, err, store.ErrInvalid)
	require.EqualError(t, err, `start: cast in election "a" on memory://: invalid value: it is too long`)
}

func TestFieldErrorText(t *testing.T) {
	require.EqualError(t, &store.FieldError{Field: "ttl", Value: "1ns", Reason: "less than 1ms"},
		`invalid ttl "1ns": less than 1ms`)
	require.EqualError(t, &store.FieldError{Field: "store", Reason: "it is nil"}, `invalid store: it is nil`)
	require.NotContains(t, (&store.FieldError{Field: "a", Value: "x\ny\x1b[0m"}).Error(), "\n")
}
