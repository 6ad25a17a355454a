package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

func parse(t *testing.T, raw string) *store.URL {
	t.Helper()
	u, err := store.ParseURL(raw)
	require.NoError(t, err, "%q", raw)
	return u
}

func TestURLOption(t *testing.T) {
	u := parse(t, "z://h?a=b&escaped=%26+%3d&q=x=y")
	for name, want := range map[string]string{
		"a": "b", "escaped": "& =", "q": "x=y", "absent": "default",
	} {
		require.Equal(t, want, u.Option(name, "default"), name)
	}
	require.NoError(t, u.Check())
}

// An option that is given and empty is no default: it is refused, by name.
func TestURLCheckNamesEmptyOptions(t *testing.T) {
	u := parse(t, "z://h?acl=&flag&ttl=1s")
	for _, name := range []string{"acl", "flag", "ttl"} {
		u.Option(name, "default")
	}
	err := u.Check()
	require.ErrorIs(t, err, store.ErrInvalid)
	require.ErrorContains(t, err, "invalid acl: the option is given and empty")
	require.ErrorContains(t, err, "invalid flag: the option is given and empty")
	require.NotContains(t, err.Error(), "ttl")
}

func TestURLDuration(t *testing.T) {
	u := parse(t, "z://h?ttl=10s&grace=1m30s&zero=0&negative=-1s")
	require.Equal(t, 10*time.Second, u.Duration("ttl", time.Hour))
	require.Equal(t, 90*time.Second, u.Duration("grace", time.Hour))
	require.Equal(t, time.Duration(0), u.Duration("zero", time.Hour), "given is given: the adapter refuses it")
	require.Equal(t, -time.Second, u.Duration("negative", time.Hour))
	require.Equal(t, time.Hour, u.Duration("absent", time.Hour))
	require.NoError(t, u.Check())
}

func TestURLCheckNamesWrongDurations(t *testing.T) {
	u := parse(t, "z://h?a=10&b=&c=ten+seconds&d=5s")
	for _, name := range []string{"a", "b", "c", "d"} {
		u.Duration(name, 0)
	}
	err := u.Check()
	require.ErrorIs(t, err, store.ErrInvalid)
	var field *store.FieldError
	require.ErrorAs(t, err, &field)
	require.ErrorContains(t, err, `invalid a "10": not a duration such as "10s"`)
	require.ErrorContains(t, err, `invalid b: not a duration such as "10s"`)
	require.ErrorContains(t, err, `invalid c "ten seconds": not a duration such as "10s"`)
	require.NotContains(t, err.Error(), "invalid d")
}

// TestURLCheckShortensValues: a FieldError's Value is "what was given, shortened".
func TestURLCheckShortensValues(t *testing.T) {
	u := parse(t, "z://h?ttl="+strings.Repeat("x", 1<<20))
	u.Duration("ttl", 0)
	var field *store.FieldError
	require.ErrorAs(t, u.Check(), &field)
	require.Equal(t, "ttl", field.Field)
	require.LessOrEqual(t, len(field.Value), 64+len("..."))
}

func TestURLCheckNamesUnknownOptions(t *testing.T) {
	u := parse(t, "z://u:p@h?ttl=1s&tls=yes&Grace=1s")
	u.Duration("ttl", 0)
	u.Duration("grace", 0)
	user, password := u.Login()
	require.Equal(t, "u:p", user+":"+password)
	err := u.Check()
	require.ErrorIs(t, err, store.ErrInvalid)
	require.ErrorContains(t, err, `invalid z URL: unknown option "tls"; it knows grace, passwordenv, passwordfile, ttl`)
	require.ErrorContains(t, err, `unknown option "Grace"`, "all of them, not only the first")
	require.NotContains(t, err.Error(), `option "ttl"`)
	require.NotContains(t, err.Error(), "yes", "a value may be a secret under a name that was misspelt")
}

// A package that does not ask for the user and the password has none: Check refuses them, and does not name their options.
func TestURLCheckRefusesALogin(t *testing.T) {
	for _, raw := range []string{"z://u@h", "z://:p@h"} {
		require.EqualError(t, parse(t, raw).Check(), "invalid z URL: it takes no user or password")
	}
	require.EqualError(t, parse(t, "z://h?tls=yes").Check(), `invalid z URL: unknown option "tls"; it knows `)
}

func TestURLCheckWithNothingWrong(t *testing.T) {
	for _, raw := range []string{"z://h", "z://h?", "z://h?ttl=5s"} {
		u := parse(t, raw)
		u.Duration("ttl", 0)
		u.Option("another", "")
		require.NoError(t, u.Check(), "%q", raw)
	}
}
