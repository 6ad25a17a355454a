package consul_test

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/stretchr/testify/require"
)

// The server is away for longer than three TTLs. When it returns it counts the time of the old session anew, whose ballot
// would block all for two TTLs. The store destroys it.
func TestServerIsAwayForThreeTTLs(t *testing.T) {
	t.Parallel()
	srv := testserver.NewConsul(t, testserver.ConsulConfig{})
	st := open(t, consul.Config{Addresses: srv.Addrs(), TTL: long})
	run := contend(t, st, newElection(), "own")
	term := receive(t, run.Terms, "the first term")
	require.NoError(t, srv.Member(0).Kill())
	receive(t, term.Context().Done(), "its end")
	<-within(t, 3*long+3*time.Second).Done()
	require.NoError(t, srv.Member(0).Start(soon(t)))
	returned := time.Now()
	receive(t, run.Terms, "the next term")
	took := time.Since(returned)
	t.Logf("a leader %v after the return", took)
	require.Less(t, took, long+3*time.Second, "without it two TTLs, less the start of the server")
}
