package reference

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errLater = fmt.Errorf("%w: no answer", store.ErrUnknownOutcome)

// answers is a service that gives one answer after the other, and the last one for ever.
type answers struct {
	mu   sync.Mutex
	list []error
	n    int
}

func (a *answers) next() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.list[min(a.n, len(a.list)-1)]
	a.n++
	return err
}

func (a *answers) asked() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.n
}

// end closes a life as a store does.
func end(l *adapter.Lifecycle) {
	l.Close()
	l.Stop()
	l.Wait()
}

func TestRepeat(t *testing.T) {
	for name, c := range map[string]struct {
		answers []error
		asked   int
		want    []error
	}{
		"at once":                {[]error{nil}, 1, nil},
		"until there is one":     {[]error{errLater, store.ErrUnavailable, nil}, 3, nil},
		"not what can't succeed": {[]error{errLater, store.ErrDenied}, 2, []error{store.ErrDenied}},
		"until the end":          {[]error{errLater}, 4, []error{context.DeadlineExceeded, store.ErrUnknownOutcome}},
		"the last is cut short": {
			[]error{store.ErrUnavailable, store.ErrUnavailable, store.ErrUnavailable, context.DeadlineExceeded}, 4,
			[]error{context.DeadlineExceeded, store.ErrUnavailable},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := adapter.NewLifecycle("store", false, "a")
				defer end(l)
				ctx, cancel := context.WithTimeout(t.Context(), 120*time.Millisecond)
				defer cancel()
				service := &answers{list: c.answers}
				value, err := repeat(ctx, l, "try", "e", func(context.Context) (int, error) { return 1, service.next() })
				require.Equal(t, c.asked, service.asked())
				if c.want == nil {
					require.NoError(t, err)
					require.Equal(t, 1, value)
				}
				for _, want := range c.want {
					require.ErrorIs(t, err, want)
				}
			})
		})
	}
}
