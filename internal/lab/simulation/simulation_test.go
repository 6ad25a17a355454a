package simulation_test

import (
	"flag"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/go-leadership/leadership/internal/lab/whole"
)

var (
	oneSeed   = flag.Int64("seed", -1, "replay TestSimulation with this seed only; with -v, print its schedule also if it passes")
	manySeeds = seedRange{0, 99}
)

func init() {
	flag.Var(&manySeeds, "seeds", "the `first-last` seeds that each variant of TestSimulation runs")
}

// seedRange is a flag, such as 1-500.
type seedRange struct{ first, last int64 }

func (r *seedRange) String() string { return fmt.Sprintf("%d-%d", r.first, r.last) }

func (r *seedRange) Set(s string) error {
	if n, err := fmt.Sscanf(s, "%d-%d", &r.first, &r.last); n < 2 || r.first < 0 || r.last < r.first {
		return fmt.Errorf("no range such as 1-500: %v", err)
	}
	return nil
}

// TestSimulation runs seeded schedules of faults and checks the promises at every step. A seed that fails is printed;
//
//	go test ./internal/lab/simulation -seed=N
//
// replays its schedule, and prints it if it fails again, with -v in any case. The order of goroutines at one
// instant, and the random part of the core's back-off, are not the seed's: if a replay passes, -count=100 tries it
// again.
//
// In the first variant the store keeps its word, and two leaders are never seen. In the second it ends sessions and
// removes ballots early, which breaks G1's assumption; fencing holds all the same. The seed decides on the way in which
// the service tells of changes, and on whether there is a server that ends sessions at all.
func TestSimulation(t *testing.T) {
	all := newWitnesses()
	for _, early := range []bool{false, true} {
		t.Run(map[bool]string{false: "one leader", true: "fencing"}[early], func(t *testing.T) {
			if *oneSeed >= 0 {
				simulate(t, *oneSeed, early, all)
				return
			}
			last := manySeeds.last
			if !whole.Tests() {
				last = min(last, manySeeds.first+19)
			}
			workers := int64(runtime.GOMAXPROCS(0))
			for worker := range workers {
				t.Run(fmt.Sprint("worker ", worker), func(t *testing.T) {
					t.Parallel()
					for seed := manySeeds.first + worker; seed <= last && !t.Failed(); seed += workers {
						simulate(t, seed, early, all)
					}
				})
			}
		})
	}
	if !t.Failed() {
		all.check(t)
	}
}

func simulate(t *testing.T, seed int64, early bool, all *witnesses) {
	t.Helper()
	defer watchdog(fmt.Sprint("seed ", seed))()
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(seed, early, all)
		s.run()
		s.count()
		if s.failed() {
			t.Errorf("seed %d: %s\nreplay it with: go test ./internal/lab/simulation -seed=%d\n%s", seed, s.violation, seed, s.schedule())
		} else if *oneSeed >= 0 {
			t.Logf("seed %d\n%s", seed, s.schedule())
		}
	})
}
