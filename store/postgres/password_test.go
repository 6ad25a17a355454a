package postgres_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
)

// secrets returns passwords as Config.PasswordFunc does.
type secrets struct {
	mu   sync.Mutex
	text string // guarded by mu, as is err
	err  error
}

func (s *secrets) get(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text, s.err
}

func (s *secrets) set(text string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text, s.err = text, err
}

// A role's password changes while a leader leads. Its connections go on, and the next ones have the new password.
func TestPasswordChanges(t *testing.T) {
	t.Parallel()
	srv := testserver.NewPostgres(t, testserver.PostgresConfig{SCRAM: true})
	sql := func(text string) {
		t.Helper()
		_, err := srv.Psql(soon(t), text)
		require.NoError(t, err)
	}
	sql("CREATE ROLE app SUPERUSER LOGIN PASSWORD 'first'")
	s := &secrets{text: "first"}
	config := postgres.Config{Addresses: srv.Addrs(), User: "app", Database: "postgres", PasswordFunc: s.get}
	b := castFirst(t, open(t, config), newElection(), "own")
	sql("ALTER ROLE app PASSWORD 'second'")
	s.set("", errors.New("the vault is sealed"))
	renewed(t, b)

	fresh := open(t, config)
	err := inVain(t, func(ctx context.Context) error { return second(fresh.Cast(ctx, newElection(), "own")) }, store.ErrUnavailable, "the vault is sealed")
	require.NotErrorIs(t, err, store.ErrDenied)

	sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'")
	s.set("second", nil)
	renewed(t, b)
	acknowledge(t, b, "own")
	require.NoError(t, b.Err())
	castFirst(t, fresh, newElection(), "own")
}
