package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
)

// recorder is a conformance.TB that records failures. A program that is no test might have one like it.
type recorder struct {
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

// caseNamed returns the case with that name.
func caseNamed(t *testing.T, name string) conformance.Case {
	t.Helper()
	cases := conformance.Cases()
	i := slices.IndexFunc(cases, func(c conformance.Case) bool { return c.Name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return cases[i]
}

// hanging is a store whose Ballots hangs from the second call on.
type hanging struct {
	*memory.Store
	calls atomic.Int64
}

func (h *hanging) Ballots(ctx context.Context, election string) ([]store.Standing, error) {
	if h.calls.Add(1) == 1 {
		return h.Store.Ballots(ctx, election)
	}
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// A case that ends with its context says what it was waiting for, also if a request of the condition has hung.
func TestCaseEndsWithItsContext(t *testing.T) {
	r := &recorder{}
	synctest.Test(t, func(*testing.T) {
		h := onMemory(10 * time.Second)
		open := h.Open
		h.Open = func(ctx context.Context, dial conformance.DialFunc) (store.Store, error) {
			st, err := open(ctx, dial)
			return &hanging{Store: st.(*memory.Store)}, err
		}
		h.Faults = func(st store.Store) conformance.Faults { return st.(*hanging).Faults() }
		caseNamed(t, "cut-off-leader-stops-first").Check(r, h)
	})
	require.Contains(t, r.log, "list the ballots: context deadline exceeded")
	require.Contains(t, r.log, "waited in vain until the ballot of a stands")
}

// stuck is a store whose Cast ignores its context, and returns when the test says so.
type stuck struct {
	store.Store
	letGo chan struct{}
}

func (s *stuck) Cast(context.Context, string, string) (store.Ballot, error) {
	<-s.letGo
	return nil, store.ErrUnavailable
}

func (s *stuck) Close() error { return nil }

// The watchdog fails a case that does not end. What the case reports after that changes nothing.
func TestWatchdog(t *testing.T) {
	st, cleared := &stuck{letGo: make(chan struct{})}, make(chan struct{})
	r := &recorder{}
	caseNamed(t, "values-are-bytes").Check(r, conformance.Harness{
		Open:     func(context.Context, conformance.DialFunc) (store.Store, error) { return st, nil },
		Clear:    func(context.Context, string) error { close(cleared); return nil },
		TTL:      time.Second,
		Expiry:   time.Second,
		Watchdog: 20 * time.Millisecond,
	})
	require.Contains(t, r.log, "did not end within 20ms")
	said := r.log
	close(st.letGo)
	<-cleared // the last call of a case
	require.Equal(t, said, r.log)
}

// Run checks each case in a subtest of its name. It does so in a process of its own: each case fails, for want of a
// service.
func TestRun(t *testing.T) {
	const failing = "CONFORMANCE_FAILING"
	if os.Getenv(failing) != "" {
		open := func(context.Context, conformance.DialFunc) (store.Store, error) { return nil, errors.New("no service") }
		conformance.Run(t, conformance.Harness{
			Open: open, OpenLeast: open,
			Clear:   func(context.Context, string) error { return nil },
			Restore: func(context.Context, string) (func() error, error) { return nil, errors.New("no service") },
			TTL:     time.Second, Expiry: time.Second,
		})
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestRun$")
	cmd.Env = append(os.Environ(), failing+"=1")
	output, err := cmd.CombinedOutput()
	require.Error(t, err)
	for _, c := range conformance.Cases() {
		require.Contains(t, string(output), "--- FAIL: TestRun/"+c.Name+" (")
	}
}
