package postgres_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
)

// The server's disk is full: casts fail in words, and one leader leads again when there is room.
func TestDiskIsFull(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("a small disk takes root")
	}
	server := testserver.NewPostgres(t, testserver.PostgresConfig{DiskSize: 128 << 20})
	list := three(t, postgres.Config{Addresses: server.Addrs()})
	require.NoError(t, server.FillDisk())
	var err error
	for value := strings.Repeat("much", 2_000); err == nil; { // which is more than there is room for in the tables
		_, err = list[0].Store.Cast(within(t, ttl), newElection(), value)
	}
	t.Log(err)
	require.True(t, isUncertain(err), "%v", err)
	require.NoError(t, server.FreeDisk())
	if !server.Member(0).Running() {
		require.NoError(t, server.Member(0).Start(soon(t)))
	}
	eventually(t, func() bool {
		if server.Member(0).Running() {
			return leaderAmong(t, list...) != nil
		}
		return server.Member(0).Start(soon(t)) == nil
	}, "the server recovers, and a candidate leads")
	castFirst(t, list[0].Store, newElection(), "own")
}

func isUncertain(err error) bool {
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome)
}
