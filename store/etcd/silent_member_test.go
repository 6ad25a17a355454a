package etcd_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A member falls silent at the moment in which leaders resign. The waiters connected to it lead after a quarter of the
// TTL, with one election and with a hundred. Whichever member it is, requests are answered after a sixth
// of the TTL.
func TestSilentMemberIsLeft(t *testing.T) {
	const ttl = 2 * time.Minute // a fortieth of it is for new connections and a busy machine
	server := testserver.NewEtcd(t, testserver.EtcdConfig{Members: 3, Extra: fast})
	for _, elections := range []int{1, 100} {
		for _, address := range server.Addrs() {
			t.Run(fmt.Sprintf("%d elections", elections), func(t *testing.T) {
				t.Parallel()
				var lines muter
				leading := open(t, etcd.Config{Endpoints: server.Addrs(), TTL: ttl})
				st := open(t, etcd.Config{Endpoints: server.Addrs(), Dial: lines.Dial, TTL: ttl})
				firsts, waiters := make([]store.Ballot, elections), make([]store.Ballot, elections)
				name := newElection()
				var casting sync.WaitGroup
				for i := range elections {
					casting.Go(func() {
						firsts[i], _ = leading.Cast(soon(t), fmt.Sprintf("%s/%d", name, i), "first")
						waiters[i], _ = st.Cast(soon(t), fmt.Sprintf("%s/%d", name, i), "waiter")
					})
				}
				casting.Wait()
				for i := range elections {
					require.NotNil(t, firsts[i])
					require.NotNil(t, waiters[i])
				}
				eventually(t, func() bool { return st.Watches() == 2*elections }, "all watch")
				confirmedAgain(t, st)

				lines.mute(address)
				start := time.Now()
				var all sync.WaitGroup
				took := func(longest chan time.Duration, call func() error) {
					all.Go(func() {
						assert.NoError(t, call())
						longest <- time.Since(start)
					})
				}
				asked, told := make(chan time.Duration, 3), make(chan time.Duration, elections)
				for i := range elections {
					all.Go(func() { assert.NoError(t, firsts[i].Withdraw(soon(t))) })
					took(told, func() error { return waiters[i].Wait(soon(t)) })
				}
				for range 3 { // one of them goes to the silent member
					took(asked, func() error { _, err := st.Ballots(soon(t), name); return err })
				}
				all.Wait()
				last := func(times chan time.Duration) (last time.Duration) {
					for range cap(times) {
						last = max(last, <-times)
					}
					return last
				}
				lastTold, lastAnswer := last(told), last(asked)
				t.Logf("all told after %v, the three requests answered after %v", lastTold, lastAnswer)
				require.Less(t, lastTold, ttl/4+ttl/40)
				require.Less(t, lastAnswer, ttl/6+ttl/40)
			})
		}
	}
}
