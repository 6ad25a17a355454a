package etcd_test

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/stretchr/testify/require"
)

// A restore brings back a withdrawn ballot of a live session, with its acknowledgement. No ballot of the store accounts for
// it, so the session ends, whether the store stands in the election again or not, and whether it can notice the restore
// or not. The cluster removes both, and the store stands again.
func TestRestoredBallotIsRemoved(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ standsAgain, noticed bool }{
		"stands again": {standsAgain: true}, "does not": {}, "is noticed": {noticed: true}, "stands again, noticed": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testserver.NewEtcd(t, testserver.EtcdConfig{})
			client := operator(t, server.Addrs()...)
			config := etcd.Config{Endpoints: server.Addrs(), TTL: 10 * time.Second}
			election := newElection()
			st, other := open(t, config), open(t, config)
			b := castFirst(t, st, election, "withdrawn")
			acknowledge(t, b, "withdrawn")
			another := castFirst(t, st, newElection(), "another")
			castFirst(t, other, newElection(), "so that this session is in the copy too")
			advance(t, client, 1)
			restart(t, server.Member(0), server.Member(0).SaveData)
			require.NoError(t, b.Withdraw(soon(t)))
			if test.noticed {
				advance(t, client, 100)
				confirmedAgain(t, st)
			}
			require.Empty(t, keys(t, client, ackKey(election)))
			restart(t, server.Member(0), server.Member(0).RestoreData)
			next := other
			if test.standsAgain {
				next = st
			}
			first := contend(t, next, election, "next")
			receive(t, first.Terms, "the term")
			lost(t, another)
			require.Equal(t, []string{"next"}, values(t, other, election))
			leader, err := storetest.Leader(soon(t), other, election, nil)
			require.NoError(t, err)
			require.Contains(t, []string{"", "next"}, leader.Value, "its acknowledgement has gone")
		})
	}
}
