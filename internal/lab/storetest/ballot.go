package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

var elections atomic.Int64

// NewElection returns the name of an election that no other test of the package uses. None is a prefix of another.
func NewElection() string { return fmt.Sprintf("test %06d", elections.Add(1)) }

// TryCast casts a ballot as a candidate does: again, if the service could not be reached for a TTL.
func TryCast(ctx context.Context, st store.Store, election, value string) (store.Ballot, error) {
	for {
		b, err := st.Cast(ctx, election, value)
		if !errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil {
			return b, err
		}
	}
}

// Cast casts a ballot.
func Cast(t testing.TB, st store.Store, election, value string) store.Ballot {
	t.Helper()
	b, err := TryCast(Soon(t), st, election, value)
	require.NoError(t, err)
	return b
}

// CastFirst casts a ballot and waits until it is first.
func CastFirst(t testing.TB, st store.Store, election, value string) store.Ballot {
	t.Helper()
	b := Cast(t, st, election, value)
	require.NoError(t, b.Wait(Soon(t)))
	return b
}

// Renewed waits until the ballot's session has been renewed by a request that was sent from now on.
func Renewed(t testing.TB, b store.Ballot) {
	t.Helper()
	now := time.Now()
	Eventually(t, func() bool { return b.Lease().Last().Sent.After(now) }, "a renewal")
}

// Acknowledge acknowledges with the value.
func Acknowledge(t testing.TB, b store.Ballot, value string) store.Leader {
	t.Helper()
	leader, err := b.Acknowledge(Soon(t), value)
	require.NoError(t, err)
	return leader
}

// Waiting checks that a ballot stands and is not first. It can't prove that the ballot never will be. It waits many
// times as long as a promotion takes.
func Waiting(t testing.TB, b store.Ballot) {
	t.Helper()
	require.ErrorIs(t, b.Wait(Within(t, 100*time.Millisecond)), context.DeadlineExceeded)
	require.NoError(t, b.Err())
}

// Lost waits until the ballot is lost.
func Lost(t testing.TB, b store.Ballot) {
	t.Helper()
	Receive(t, b.Lost(), "the loss of the ballot")
	require.ErrorIs(t, b.Err(), store.ErrLost)
}

// Values returns the values of the ballots that stand, first in line first.
func Values(t testing.TB, st store.Store, election string) []string {
	t.Helper()
	list, err := st.Ballots(Soon(t), election)
	require.NoError(t, err)
	values := []string{}
	for _, b := range list {
		values = append(values, b.Value)
	}
	return values
}
