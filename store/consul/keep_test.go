package consul_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/suspension"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/stretchr/testify/require"
)

// The link turns slow while a candidate leads: a round trip takes an eighth of the TTL. The candidate keeps leading for
// two TTLs, and followers are told and confirmed. The two TTLs begin anew only if this process has stood still for a good
// part of a round trip since they began. For links that are slow from the start see long-round-trips of the suite.
func TestSlowLink(t *testing.T) {
	t.Parallel()
	for _, ttl := range []time.Duration{checked, least} {
		t.Run(ttl.String(), func(t *testing.T) {
			t.Parallel()
			meter := stall.Watch(t)
			var link storetest.Link
			election := newElection()
			own := contend(t, open(t, consul.Config{Dial: link.Dial, TTL: ttl}), election, "own")
			term := receive(t, own.Terms, "it leads")
			link.RoundTrip(ttl / 8)
			follower := open(t, consul.Config{Dial: link.Dial, TTL: ttl})
			leader, err := storetest.Leader(soon(t), follower, election, nil)
			require.NoError(t, err)
			require.Equal(t, "own", leader.Value)
			since, before := time.Now(), meter.Stalled()
			anew := func(why string) {
				require.Greater(t, meter.Stalled()-before, ttl/24, "%s; %v", why, meter)
				t.Log(why)
				since, before = time.Now(), meter.Stalled()
			}
			eventually(t, func() bool {
				known, err := follower.Observe(soon(t), election, &store.Known{}) // what is known
				require.NoError(t, err)
				var why []string
				if term.Context().Err() != nil {
					why = append(why, fmt.Sprintf("the term has ended after %v: %v", time.Since(since), context.Cause(term.Context())))
					term = receive(t, own.Terms, "the next term")
				}
				if age := time.Since(known.AsOf); age >= ttl {
					why = append(why, fmt.Sprintf("what is known is %v old", age))
				}
				if why != nil {
					anew(strings.Join(why, ", "))
				}
				return time.Since(since) > 2*ttl
			}, "two TTLs without a break")
			leader, err = storetest.Leader(soon(t), follower, election, nil)
			require.NoError(t, err)
			own.Resign()
			next, err := storetest.Leader(soon(t), follower, election, &leader)
			require.NoError(t, err)
			require.NotEqual(t, leader, next)
		})
	}
}

// A machine that resumes from a suspension confirms its session at once: the timer of the next confirmation is as late as the
// suspension was long, while the lease counts that time.
func TestConfirmedAfterASuspension(t *testing.T) {
	b := castFirst(t, open(t, consul.Config{}), newElection(), "own")
	before, meter, began := b.Lease().Last().Sent, stall.Watch(t), time.Now()
	suspension.Resume()
	eventually(t, func() bool { return b.Lease().Last().Sent.After(before) }, "it is confirmed")
	require.Less(t, time.Since(began), long/8+meter.Stalled(), "it waited for the next confirmation; %v", meter)
}
