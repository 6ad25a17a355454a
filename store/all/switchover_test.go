package all_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/operate"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

var switchovers = flag.Int("switchovers", 20, "how often TestSwitchOver switches over on each store")

// On each store, the leadership moves to a waiter at any position: the target leads, no other in between, and never two.
func TestSwitchOver(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"zookeeper", "etcd", "consul", "file", "memory"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			raw := on(t, kind, "ttl=1m") // no session is lost on a busy machine
			switch kind {
			case "file":
				raw = "file://" + t.TempDir() + "/store?ttl=1m"
			case "zookeeper":
				raw = on(t, kind, "ttl=10s") // the server grants no more
			}
			election := newElection()
			var mu sync.Mutex
			var terms []string
			leads := 0
			const candidates = 6
			for i := range candidates {
				value := fmt.Sprint("candidate ", i)
				c, err := leadership.NewCandidate(open(t, raw, nil), election, value, &leadership.CandidateOptions{
					Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})).With("candidate", i),
				})
				require.NoError(t, err)
				go func() {
					_ = c.Run(context.Background(), func(ctx context.Context, term *leadership.Term) error {
						mu.Lock()
						leads++
						terms = append(terms, value)
						if leads > 1 {
							t.Error("two lead")
						}
						mu.Unlock()
						defer func() { mu.Lock(); defer mu.Unlock(); leads-- }()
						return leadership.Lead(ctx, term)
					})
				}()
				t.Cleanup(func() { c.Stop(); <-c.Done() })
			}
			operator := open(t, raw, nil)
			var took []time.Duration
			for range *switchovers {
				var list []store.Standing
				eventually(t, func() bool {
					q, err := operate.Read(t.Context(), operator, election)
					require.NoError(t, err)
					list = q.Ballots
					return len(list) == candidates && q.Leads()
				}, "all stand")
				mu.Lock()
				terms = nil
				mu.Unlock()
				target := list[1+rand.N(candidates-1)]
				o, err := operate.SwitchOver(soon(t), operator, election, target.Token)
				require.NoError(t, err)
				require.Equal(t, target.Token, o.After.Ballots[0].Token)
				require.Equal(t, target.Value, o.After.Leader.Value)
				mu.Lock()
				require.Equal(t, []string{target.Value}, terms)
				mu.Unlock()
				took = append(took, o.Took)
			}
			t.Logf("%d switch-overs: median %v, slowest %v", len(took), slices.Sorted(slices.Values(took))[len(took)/2], slices.Max(took))
		})
	}
}
