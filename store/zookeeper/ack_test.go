package zookeeper_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// A node that another client made at the acknowledgement's path is replaced, unless it has children. Then the error
// says what to do, and acknowledging works as soon as that is done.
func TestAcknowledgementBehindAForeignNode(t *testing.T) {
	t.Parallel()
	election := newElection()
	conn := operator(t)
	ack := dir(election) + "/leader_ack"
	makePath(t, conn, ack+"/child")
	b := castFirst(t, open(t, zookeeper.Config{}), election, "ours")
	_, err := b.Acknowledge(soon(t), "ours")
	require.ErrorIs(t, err, zk.ErrNotEmpty)
	require.ErrorContains(t, err, ack+" was made by another program")
	require.ErrorContains(t, err, "delete it")
	require.False(t, store.Permanent(err), "it can be cured while the candidate goes on")
	require.NoError(t, conn.Delete(ack+"/child", -1))
	acknowledge(t, b, "ours")
	require.NoError(t, b.Withdraw(soon(t)))
	require.Empty(t, list(t, conn, dir(election)))
}

// A node of no session, or of another one, is replaced by one of this session with another version. The longest value passes. A
// session that lives is named in the log.
func TestAcknowledgementInTheWay(t *testing.T) {
	t.Parallel()
	conn := operator(t)
	for name, c := range map[string]struct {
		flags   int32
		version int32
		value   string
	}{
		"of no session": {zk.FlagPersistent, 0, oddBytes}, "changed": {zk.FlagPersistent, 1, strings.Repeat("x", store.MaxValue)},
		"of another session": {zk.FlagEphemeral, 1, oddBytes},
	} {
		t.Run(name, func(t *testing.T) {
			election := newElection()
			path := dir(election) + "/leader_ack"
			makePath(t, conn, dir(election))
			_, err := conn.Create(path, []byte("old:1234"), c.flags, world)
			require.NoError(t, err)
			for range c.version {
				_, err := conn.Set(path, []byte("old:1234"), -1)
				require.NoError(t, err)
			}
			log := &text{}
			st := open(t, zookeeper.Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
			b := castFirst(t, st, election, "ours")
			leader := acknowledge(t, b, c.value)
			data, stat, err := conn.Get(path)
			require.NoError(t, err)
			require.Equal(t, c.value, string(data))
			require.EqualValues(t, leader.Revision, stat.Mzxid)
			require.NotEqual(t, c.version, stat.Version, "a late request to delete the old one fails")
			_, ballot, err := conn.Get(find(t, conn, election, "ours"))
			require.NoError(t, err)
			require.Equal(t, ballot.EphemeralOwner, stat.EphemeralOwner, "it goes with the ballot's session")
			require.NoError(t, b.Withdraw(soon(t)))
			require.Empty(t, list(t, conn, dir(election)))
			require.NoError(t, st.Close()) // which waits for the log
			require.Equal(t, c.flags == zk.FlagEphemeral, strings.Contains(log.String(), fmt.Sprintf("session=%x value=old:1234", uint64(conn.SessionID()))), log.String())
		})
	}
}

// text is what has been written.
type text struct {
	mu  sync.Mutex
	all strings.Builder // guarded by mu
}

func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all.Write(p)
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all.String()
}
