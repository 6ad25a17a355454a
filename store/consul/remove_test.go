package consul_test

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

// A ballot that an operator unlocks is lost at once, first in line or not. For ballots that are deleted see TestEndsEarly of
// package all.
func TestBallotIsReleased(t *testing.T) {
	t.Parallel()
	client, election := operator(t, sharedServer(t)), newElection()
	a, b, c := open(t, consul.Config{}), open(t, consul.Config{}), open(t, consul.Config{})
	first, second, third := castFirst(t, a, election, "1"), cast(t, b, election, "2"), cast(t, c, election, "3")
	victims := map[string]store.Ballot{"1": first, "2": second}
	for _, value := range []string{"2", "1"} {
		for _, pair := range ballotKeys(t, client, election) {
			if string(pair.Value) == value {
				began := time.Now()
				_, _, err := client.KV().Release(&api.KVPair{Key: pair.Key, Session: pair.Session}, nil)
				require.NoError(t, err)
				lost(t, victims[value])
				require.Less(t, time.Since(began), long/6, "it waited for the next renewal")
			}
		}
		if value == "2" {
			waiting(t, third)
		}
	}
	require.NoError(t, third.Wait(soon(t)))
	require.Equal(t, []string{"3"}, values(t, c, election))
}
