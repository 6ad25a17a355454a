package consul_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store/consul"
	"github.com/stretchr/testify/require"
)

// Callers whose contexts end before the service answers harm no others: a patient candidate of the same store leads,
// and what they leave behind is removed as fast as it is made.
func TestImpatientCallers(t *testing.T) {
	t.Parallel()
	client := operator(t, sharedServer(t))
	election, st := newElection(), open(t, consul.Config{})
	elsewhere := newElection()
	castFirst(t, st, elsewhere, "so that there is a session")
	session := sessionOf(t, client, elsewhere, "so that there is a session")
	before := runtime.NumGoroutine()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			for ctx.Err() == nil {
				short, cancel := context.WithTimeout(ctx, rand.N(40*time.Millisecond))
				if b, err := st.Cast(short, election, "impatient"); err == nil {
					_ = b.Withdraw(short)
				}
				cancel()
			}
		})
	}
	var slowest time.Duration
	most, goroutines := 0, 0
	for began := time.Now(); time.Since(began) < 3*time.Second; { // the time for which it counts
		asked := time.Now()
		b := castFirst(t, st, election, "patient")
		slowest = max(slowest, time.Since(asked))
		acknowledge(t, b, "patient")
		most = max(most, len(ballotKeys(t, client, election)))
		goroutines = max(goroutines, runtime.NumGoroutine())
		require.NoError(t, b.Withdraw(soon(t)))
	}
	t.Logf("a patient candidate led after %v at most; %d ballots, %d goroutines", slowest, most, goroutines-before)
	require.Less(t, slowest, 10*time.Second)
	require.Less(t, most, 100)
	require.Less(t, goroutines-before, 400)
	stop()
	callers.Wait()
	eventually(t, func() bool { return len(ballotKeys(t, client, election)) == 0 }, "nothing is left behind")
	marks, _, err := client.KV().Keys("leadership/_void/"+session, "", nil)
	require.NoError(t, err)
	require.NotEmpty(t, marks)
	require.LessOrEqual(t, len(marks), 32, "marks of void ballots")
}
