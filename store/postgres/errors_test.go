package postgres

import (
	"errors"
	"reflect"
	"testing"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// What each error of the server means for the request: whether the request might have been carried out, whether it is
// sent again, and whether the server works.
func TestExplain(t *testing.T) {
	for code, is := range map[string]error{
		"57014": store.ErrUnavailable, "55P03": store.ErrUnavailable, "40001": store.ErrUnavailable, "40P01": store.ErrUnavailable,
		"57P03": store.ErrUnavailable, "25006": store.ErrUnavailable, "53100": store.ErrUnavailable, "53300": store.ErrUnavailable,
		"25P04": store.ErrUnavailable, "54000": store.ErrUnavailable, "42P01": store.ErrUnavailable,
		"28P01": store.ErrDenied, "28000": store.ErrDenied, "42501": store.ErrDenied,
		"57P01": store.ErrUnknownOutcome, "57P02": store.ErrUnknownOutcome, "08006": store.ErrUnknownOutcome,
		"XX000": store.ErrUnknownOutcome, "58030": store.ErrUnknownOutcome,
		"3D000": nil, "42703": nil, "22021": nil, "P0001": nil, "2200H": nil, "": nil,
	} {
		refused := &pgconn.PgError{Code: code, Message: "made by the test"}
		err := new(driver).explain(refused, store.ErrUnknownOutcome)
		require.ErrorIs(t, err, refused, code)
		require.Equal(t, errors.Is(is, store.ErrUnknownOutcome), errors.Is(err, store.ErrUnknownOutcome), code)
		require.Equal(t, is != nil && !errors.Is(is, store.ErrDenied), adapter.Uncertain(err), code)
		require.True(t, is == nil || errors.Is(err, is), code)
		require.Equal(t, errors.Is(is, store.ErrDenied), errors.Is(err, store.ErrDenied), code)
		answer := code == "57014" || code == "55P03" || code == "40001" || code == "40P01" || code == "42P01"
		require.Equal(t, answer, isAnswered(err), "%s: an answer is no outage, and an outage no answer", code)
	}
}

// What is missing within a function is not the schema.
func TestMissing(t *testing.T) {
	for _, code := range []string{"3F000", "42883", "42P01"} {
		require.True(t, isMissing(&pgconn.PgError{Code: code}), code)
		require.False(t, isMissing(&pgconn.PgError{Code: code, Where: "PL/pgSQL function leadership.hello() line 3"}), code)
	}
	require.False(t, isMissing(&pgconn.PgError{Code: "42501"}))
}

// isAnswered reports whether an error is marked with engine.Answered.
func isAnswered(err error) bool {
	return reflect.TypeOf(err) == reflect.TypeOf(engine.Answered(errors.New("")))
}

// What an outcome means: a request that came too late is an answer of a server that works, and no reason to give up.
func TestOutcome(t *testing.T) {
	for said, is := range map[string]error{
		"stands": nil, "done": nil, "over": engine.ErrOver, "gone": engine.ErrGone,
		"void": store.ErrUnavailable, "late": store.ErrUnavailable, "what": store.ErrUnknownOutcome, "": store.ErrUnknownOutcome,
	} {
		require.ErrorIs(t, outcome(said), is, said)
		require.Equal(t, said == "void" || said == "late", isAnswered(outcome(said)), said)
	}
}
