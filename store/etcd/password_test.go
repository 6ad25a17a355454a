package etcd

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// secrets returns passwords as Config.PasswordFunc does.
type secrets struct {
	mu    sync.Mutex
	text  string // guarded by mu, as are all
	err   error
	calls int
}

func (s *secrets) get(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	return s.text, s.err
}

func (s *secrets) set(text string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text, s.err = text, err
}

// asked waits until the function has been called twice more.
func (s *secrets) asked(t *testing.T) {
	t.Helper()
	count := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.calls
	}
	before := count()
	eventually(t, func() bool { return count() >= before+2 }, "the password is asked for")
}

// A user's password changes while one ballot leads and another waits. The program has the old password for a while, and
// none for a while. Both ballots stand, and the next one is cast with the new password.
func TestPasswordChanges(t *testing.T) {
	t.Parallel()
	server, election := sharedTokens(t), newElection()
	config := user(t, server)
	s := &secrets{text: secret}
	config.Password, config.PasswordFunc, config.TTL = "", s.get, middling
	first, next := open(t, config), open(t, config)
	b, waiter := castFirst(t, first, election, "first"), cast(t, next, election, "waiter")
	acknowledge(t, b, "first")

	_, err := root(t, server).UserChangePassword(soon(t), config.User, "second")
	require.NoError(t, err)
	s.asked(t)
	s.set("", errors.New("the vault is sealed"))
	s.asked(t)
	require.NoError(t, b.Err())
	require.NoError(t, waiter.Err())

	fresh := open(t, config)
	ctx, cancel := context.WithTimeout(t.Context(), shortest)
	defer cancel()
	_, err = fresh.Cast(ctx, newElection(), "own")
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.NotErrorIs(t, err, store.ErrDenied)
	require.ErrorContains(t, err, "the vault is sealed")

	s.set("second", nil)
	leader := acknowledge(t, b, "again")
	require.Equal(t, "again", leader.Value)
	require.NoError(t, b.Withdraw(soon(t)))
	require.NoError(t, waiter.Wait(soon(t)))
	acknowledge(t, waiter, "waiter")
	castFirst(t, fresh, newElection(), "own")
}
