package conformance_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// recorder is a testing.TB that only remembers failures.
type recorder struct {
	testing.TB
	mu     sync.Mutex
	failed bool
	log    string
}

func (r *recorder) Helper() {}
func (r *recorder) Fail()   { r.Errorf("failed") }
func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
	r.log += fmt.Sprintf(format, args...) + "\n"
}
func (r *recorder) Logf(string, ...any) {}
func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// brokenStores break one promise each, and nothing else. The cases that they fail are named exactly; those that they
// may fail depend on which of two goroutines comes first.
var brokenStores = []struct {
	name    string
	promise string
	breaks  func(w *world) func(store.Store) store.Store
	fails   []string
	may     []string
}{
	{
		name: "a lease that never ends", promise: "G1",
		breaks: func(*world) func(store.Store) store.Store {
			return func(st store.Store) store.Store { return &ballots{Store: st, wrap: endless} }
		},
		fails: []string{
			"cut-off-leader-stops-first", "first-answer-after-a-pause", "late-confirmation-revives-nothing",
			"hanging-call-holds-nothing-up", "outage-longer-than-the-session", "winners-and-losers-callbacks",
			"lease-leaves-a-grace", "close-against-a-campaign",
		},
		may: []string{"close-under-a-candidate"}, // where it asks before the candidate has learnt of the loss
	},
	{
		name: "tokens that restart when the keys are removed", promise: "G2",
		breaks: func(w *world) func(store.Store) store.Store {
			return func(st store.Store) store.Store {
				return &ballots{Store: st, wrap: func(_ *ballots, b store.Ballot) store.Ballot {
					return &renumbered{b, b.Token() - w.cleared()}
				}}
			}
		},
		fails: []string{"tokens-grow-over-removal"},
	},
	{
		name: "tokens that are not the service's", promise: "G2",
		breaks: func(*world) func(store.Store) store.Store {
			return func(st store.Store) store.Store {
				var mu sync.Mutex
				var count uint64
				return &ballots{Store: st, wrap: func(_ *ballots, b store.Ballot) store.Ballot {
					mu.Lock()
					defer mu.Unlock()
					count++
					return &renumbered{b, count}
				}}
			}
		},
		fails: []string{"tokens-grow-over-resignations", "tokens-grow-over-crashes", "tokens-are-listed"},
	},
	{
		name: "a campaign that is given up leaves its ballot", promise: "G3",
		breaks: func(w *world) func(store.Store) store.Store {
			return func(st store.Store) store.Store { return &careless{Store: st, world: w} }
		},
		fails: []string{"abandoned-campaign-leaves-no-ballot"},
		may:   []string{"stop-leaves-nothing"}, // where Stop finds the candidate campaigning
	},
	{
		name: "every second one that has waited goes to the back once", promise: "G4",
		breaks: func(w *world) func(store.Store) store.Store {
			wrap := yields(w)
			return func(st store.Store) store.Store { return &ballots{Store: st, wrap: wrap} }
		},
		fails: []string{
			"leads-in-the-order-of-ballots", "who-leaves-goes-to-the-back", "a-gap-promotes-nobody",
			"winners-and-losers-callbacks", "a-change-wakes-one",
		},
		may: []string{"events-and-values-in-order"}, // where the second candidate yields in time
	},
	{
		name: "acknowledged on being first", promise: "G5",
		breaks: func(*world) func(store.Store) store.Store {
			return func(st store.Store) store.Store { return &ballots{Store: st, wrap: hasty} }
		},
		fails: []string{"told-after-the-acknowledgement", "failed-takeover-is-never-acknowledged"},
		may:   []string{"winners-and-losers-callbacks", "followers-see-every-leader"}, // told of two acknowledgements
	},
	{
		name: "everyone looks at each change", promise: "G6",
		breaks: func(w *world) func(store.Store) store.Store {
			return func(st store.Store) store.Store { return &ballots{Store: st, wrap: curious(w)} }
		},
		fails: []string{"a-change-wakes-one"},
	},
	{
		name: "a goroutine for each ballot that stays", promise: "G7",
		breaks: func(w *world) func(store.Store) store.Store {
			return func(st store.Store) store.Store {
				return &ballots{Store: st, wrap: func(_ *ballots, b store.Ballot) store.Ballot {
					w.left.Go(func() { <-w.over })
					return b
				}}
			}
		},
		fails: []string{"stop-leaves-nothing", "close-leaves-nothing", "many-starts-and-stops"},
	},
}

// TestBrokenStores shows that the suite can fail: for each promise a store that breaks it fails cases for that
// promise, exactly those listed, and passes all others.
func TestBrokenStores(t *testing.T) {
	tested := map[string]bool{}
	for _, broken := range brokenStores {
		tested[broken.promise] = true
		t.Run(broken.promise+" "+broken.name, func(t *testing.T) {
			var failed []string
			for _, c := range conformance.Cases() {
				r := &recorder{TB: t}
				synctest.Test(t, func(*testing.T) {
					w := &world{over: make(chan struct{})}
					c.Check(r, w.harness(broken.breaks(w)))
					close(w.over)
					w.left.Wait()
				})
				if r.failed && !slices.Contains(broken.may, c.Name) {
					failed = append(failed, c.Name)
					assert.Contains(t, c.Promises, broken.promise, "%s does not check it, and fails: %s", c.Name, r.log)
				}
			}
			assert.ElementsMatch(t, broken.fails, failed)
		})
	}
	for _, promise := range []string{"G1", "G2", "G3", "G4", "G5", "G6", "G7"} {
		require.True(t, tested[promise], "no store breaks %s", promise)
	}
}

// world is what the broken stores of one case share.
type world struct {
	over chan struct{}  // closed when the case has ended
	left sync.WaitGroup // what a broken store leaves running until then

	mu   sync.Mutex
	base uint64 // guarded by mu: the token before the last removal of the keys
}

func (w *world) cleared() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.base
}

// harness is that of the in-memory store with every store broken.
func (w *world) harness(breaks func(store.Store) store.Store) conformance.Harness {
	h := onMemory(10 * time.Second)
	open, wipe := h.Open, h.Clear
	h.Open = func(ctx context.Context, dial conformance.DialFunc) (store.Store, error) {
		st, err := open(ctx, dial)
		if err != nil {
			return nil, err
		}
		return breaks(st), nil
	}
	h.Faults = func(st store.Store) conformance.Faults {
		for {
			switch s := st.(type) {
			case *ballots:
				st = s.Store
			case *careless:
				st = s.Store
			default:
				return st.(*memory.Store).Faults()
			}
		}
	}
	h.Clear = func(ctx context.Context, election string) error {
		st, err := open(ctx, nil)
		if err != nil {
			return err
		}
		defer st.Close()
		b, err := st.Campaign(ctx, "clear", "")
		if err != nil {
			return err
		}
		w.mu.Lock()
		w.base = b.Token()
		w.mu.Unlock()
		return wipe(ctx, election)
	}
	return h
}
