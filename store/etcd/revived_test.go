package etcd_test

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/testserver"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/stretchr/testify/require"
)

// A restore brings back a withdrawn ballot of a live session, with its acknowledgement. The store of that session
// removes both, whether it stands in the election again or not.
func TestRestoredBallotIsRemoved(t *testing.T) {
	t.Parallel()
	for name, standsAgain := range map[string]bool{"stands again": true, "does not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testserver.NewEtcd(t, testserver.EtcdConfig{})
			client := operator(t, server.Addrs()...)
			config := etcd.Config{Endpoints: server.Addrs(), TTL: 10 * time.Second}
			election := newElection()
			st, other := open(t, config), open(t, config)
			b := castFirst(t, st, election, "withdrawn")
			acknowledge(t, b, "withdrawn")
			goesOn := castFirst(t, st, newElection(), "goes on")
			castFirst(t, other, newElection(), "so that this session is in the copy too")
			advance(t, client, 1)
			restart(t, server.Member(0), server.Member(0).SaveData)
			require.NoError(t, b.Withdraw(soon(t)))
			if !standsAgain {
				advance(t, client, 100) // so that the store notices the restore
				confirmedAgain(t, st)
			}
			require.Empty(t, keys(t, client, ackKey(election)))
			restart(t, server.Member(0), server.Member(0).RestoreData)
			next := other
			if standsAgain {
				next = st
			}
			require.NoError(t, cast(t, next, election, "next").Wait(soon(t)))
			require.NoError(t, goesOn.Err(), "its session goes on")
			require.Equal(t, []string{"next"}, values(t, other, election))
			eventually(t, func() bool { return len(keys(t, client, ackKey(election))) == 1 }, "its acknowledgement goes")
		})
	}
}
