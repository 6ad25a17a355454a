package consul_test

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/stretchr/testify/require"
)

// `consul snapshot restore` brings back a withdrawn ballot while the store goes on renewing the session. No ballot of the
// store accounts for it: the session ends, and takes it along with its acknowledgement, whether or not the store stands in
// that election.
func TestRestoredBallotIsRemoved(t *testing.T) {
	for _, again := range []bool{true, false} {
		t.Run(map[bool]string{true: "stands again", false: "stands no more"}[again], func(t *testing.T) {
			t.Parallel()
			srv := testserver.NewConsul(t, testserver.ConsulConfig{})
			client := operator(t, srv)
			a := open(t, consul.Config{Addresses: srv.Addrs()})
			election := newElection()
			first := castFirst(t, a, election, "withdrawn")
			acknowledge(t, first, "withdrawn")
			another := castFirst(t, a, newElection(), "in another election")
			snapshot, _, err := client.Snapshot().Save(nil)
			require.NoError(t, err)
			defer snapshot.Close()
			require.NoError(t, first.Withdraw(soon(t)))
			if again {
				contend(t, a, election, "again")
			}
			b := open(t, consul.Config{Addresses: srv.Addrs()})
			contend(t, b, election, "other")
			eventually(t, func() bool { return len(values(t, b, election)) > 0 }, "it stands")
			began := time.Now()
			require.NoError(t, client.Snapshot().Restore(nil, snapshot))
			lost(t, another)
			_ = another.Withdraw(soon(t)) // the end of the session waits for its work; it takes the ballot along
			eventually(t, func() bool {
				list := values(t, b, election)
				leader, err := storetest.Leader(soon(t), b, election, nil)
				require.NoError(t, err)
				return len(list) > 0 && list[0] != "withdrawn" && leader.Value == list[0]
			}, "another leads")
			require.Less(t, time.Since(began), long/2)
			t.Logf("another led %v after the restore began", time.Since(began))
		})
	}
}
