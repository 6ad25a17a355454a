package leadership_test

import (
	"context"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// hanging returns, by what hangs, options whose log handler or hook does.
func hanging(hang func()) map[string]*leadership.Options {
	all := map[string]*leadership.Options{"all lines": handledBy(func(string) { hang() })}
	for _, line := range []string{"standing", "elected", "acknowledged", "leadership ended", "ballot given back", "renewals are overdue",
		"leader changed", "leader gone", "no leader yet", "attempt failed"} {
		all[line] = handledBy(func(message string) {
			if strings.HasPrefix(message, line) {
				hang()
			}
		})
	}
	for i, field := range reflect.VisibleFields(reflect.TypeFor[leadership.Hooks]()) {
		hooks := &leadership.Hooks{}
		reflect.ValueOf(hooks).Elem().Field(i).Set(reflect.MakeFunc(field.Type, func([]reflect.Value) []reflect.Value { hang(); return nil }))
		all[field.Name] = &leadership.Options{Hooks: hooks}
	}
	return all
}

// failingFirst returns a store whose first Cast and first Observe fail.
func failingFirst(st store.Store) *fakeStore {
	fake := &fakeStore{Store: st}
	fake.cast = func(context.Context, string, string) (store.Ballot, error) {
		fake.cast = nil
		return nil, store.ErrUnavailable
	}
	fake.observe = func(context.Context, string, *store.Known) (store.Known, error) {
		fake.observe = nil
		return store.Known{}, store.ErrUnavailable
	}
	return fake
}

// A log handler or a hook that hangs delays what is told after it, and nothing else: the leader's function is called,
// renewals go on, the ballot is given back and another candidate leads, followers hear of it, Resign and Stop return, and
// Run does a second after its work. Done waits.
func TestHandlersAndHooksThatHang(t *testing.T) {
	for what := range hanging(nil) {
		virtualRun(t, what, func(w *world) {
			var hung atomic.Bool
			released := make(chan struct{})
			opts := hanging(func() { hung.Store(true); <-released })[what]
			st := w.open()
			a, f := w.candidate(failingFirst(st), "a", opts), w.follower(failingFirst(w.open()), opts)
			b := w.candidate(w.open(), "b", nil)
			release := sync.OnceFunc(func() { close(released) })
			w.Cleanup(release)
			leads := func(c *leadership.Candidate) {
				w.Helper()
				w.until(c.IsLeader)
				w.until(func() bool { leader, _ := f.Leader(); return leader.Value == c.Value() })
			}
			f.Start()
			w.until(f.Fresh)
			called := 0
			result := run(a, func(ctx context.Context, term *leadership.Term) error { called++; return serve(ctx, term) })
			leads(a)
			require.Equal(w, 1, called)
			run(b, serve)
			synctest.Wait()
			require.NoError(w, w.observer.RequestResignation(background, election, a.Term().Token()))
			leads(b)
			w.until(func() bool { return len(w.ballots()) == 2 })
			require.False(w, pending(async(func() error { b.Resign(); return nil })))
			leads(a)
			require.Equal(w, 2, called)
			st.Faults().Cut()
			w.until(func() bool { return a.Term().Remaining() < time.Second })
			st.Faults().Heal()
			w.at(w.now() + ttl)
			leads(a)
			require.False(w, pending(async(func() error { a.Resign(); return nil })), "Resign")
			leads(b)
			require.False(w, pending(async(func() error { a.Stop(); f.Stop(); return nil })), "Stop")
			w.at(w.now() + time.Second)
			require.False(w, pending(result), "Run")
			require.NoError(w, <-result)
			require.Equal(w, []string{"b"}, w.ballots())
			require.True(w, hung.Load())
			require.False(w, isDone(a) && isDone(f), "it is still being told")
			release()
			require.True(w, isDone(a) && isDone(f))
		})
	}
}

// What a term does is told in the order in which it happens, though other goroutines end the term at the very moment at
// which it begins.
func TestToldInOrder(t *testing.T) {
	virtual(t, func(w *world) {
		var happened diary
		c := w.candidate(w.open(), "a", &leadership.Options{
			Logger: handledBy(func(message string) {
				if message != "standing" {
					happened.add("%s", message)
				}
			}).Logger,
			Hooks: &leadership.Hooks{
				TermBegan:            func(string, uint64) { happened.add("TermBegan") },
				ResignationRequested: func(string, uint64) { happened.add("ResignationRequested") },
				TermEnded:            func(string, uint64, error) { happened.add("TermEnded") },
				GivenBack:            func(string, uint64, time.Duration) { happened.add("GivenBack") },
			},
		})
		for round := range 200 {
			happened.entries = nil
			for range 8 { // as soon as there is a term, one of them is likely to run
				go func() {
					for c.Term() == nil && c.Status().State != leadership.WindingDown {
						if c.Status().State == leadership.Idle {
							return
						}
					}
					c.Resign()
				}()
			}
			term := w.campaign(c)
			require.NoError(w, term.Withdraw(background))
			synctest.Wait()
			require.Equal(w, []string{
				"elected", "TermBegan", "leadership ended", "TermEnded", "ballot given back", "GivenBack",
			}, happened.all(), "round %d", round)
		}
	})
}
