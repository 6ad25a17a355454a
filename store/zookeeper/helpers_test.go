package zookeeper_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/stretchr/testify/require"
)

const (
	// ttl is the session timeout of most tests: the shortest that leaves the full grace on the shared server.
	ttl = 2 * time.Second
	// middling is one for tests in which a session has to outlast some confirmations that fail.
	middling = 4 * time.Second
	// long is one that a test uses where losing the session to a slow machine would spoil it.
	long = 10 * time.Second
	// watchdog ends a wait for something that ought to take milliseconds, or a session timeout.
	watchdog = 30 * time.Second
)

var elections atomic.Int64

// newElection returns the name of an election that no other test uses.
func newElection() string { return fmt.Sprintf("test %d", elections.Add(1)) }

// dir is where an election's nodes are, with the default settings.
func dir(election string) string {
	return "/_zkelection/" + strings.ReplaceAll(election, "/", "__")
}

// open opens a store that the end of the test closes. Its TTL is ttl where the configuration names none.
func open(t *testing.T, config zookeeper.Config) *zookeeper.Store {
	t.Helper()
	if config.TTL == 0 {
		config.TTL = ttl
	}
	if config.Conn == nil {
		config.Dial = newTap(t, config.Dial).Dial // see settle
	}
	st, err := zookeeper.Open(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

// soon returns a context that ends when the wait for something has failed.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), watchdog)
	t.Cleanup(cancel)
	return ctx
}

// within returns a context for a call that is meant to end unfinished.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits until the condition holds.
func eventually(t *testing.T, condition func() bool, what string, args ...any) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(watchdog); !condition(); {
		select {
		case <-tick.C:
		case <-end:
			require.FailNow(t, "it did not happen: "+fmt.Sprintf(what, args...))
		}
	}
}

// receive takes the next value of a channel.
func receive[T any](t *testing.T, ch <-chan T, what string, args ...any) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(watchdog):
		require.FailNow(t, "it did not come: "+fmt.Sprintf(what, args...))
		panic("unreachable")
	}
}

// campaign casts a ballot as a candidate does: again, where the service was out of reach for the time of a TTL.
func campaign(ctx context.Context, st store.Store, election, value string) (store.Ballot, error) {
	for {
		b, err := st.Campaign(ctx, election, value)
		if !errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil {
			return b, err
		}
	}
}

// cast casts a ballot.
func cast(t *testing.T, st store.Store, election, value string) store.Ballot {
	t.Helper()
	b, err := campaign(soon(t), st, election, value)
	require.NoError(t, err)
	return b
}

// castFirst casts a ballot and waits until it is first.
func castFirst(t *testing.T, st store.Store, election, value string) store.Ballot {
	t.Helper()
	b := cast(t, st, election, value)
	require.NoError(t, b.Wait(soon(t)))
	return b
}

// lost waits until the ballot is lost.
func lost(t *testing.T, b store.Ballot) {
	t.Helper()
	receive(t, b.Lost(), "the loss of the ballot")
	require.ErrorIs(t, b.Err(), store.ErrLost)
}

// waiting checks that a ballot stands and is not first. It can't prove that the ballot never will be; it gives wrong
// promotions the time that a right one takes many times over.
func waiting(t *testing.T, b store.Ballot) {
	t.Helper()
	require.ErrorIs(t, b.Wait(within(t, 100*time.Millisecond)), context.DeadlineExceeded)
	require.NoError(t, b.Err())
}

// values returns the values of the ballots that stand, first in line first.
func values(t *testing.T, st store.Store, election string) []string {
	t.Helper()
	list, err := st.Ballots(soon(t), election)
	require.NoError(t, err)
	names := []string{}
	for _, b := range list {
		names = append(names, b.Value)
	}
	return names
}

// contender is a candidate that Run drives, and tells of its terms.
type contender struct {
	*leadership.Candidate
	value string
	store store.Store
	terms chan *leadership.Term // acknowledged
	ended chan error            // what Run returned
	stop  func()                // ends Run and waits for it
	errs  errorLog
}

// contend lets a candidate stand until the end of the test: it leads for as long as it can.
func contend(t *testing.T, st store.Store, election, value string) *contender {
	t.Helper()
	c := &contender{value: value, store: st, terms: make(chan *leadership.Term, 1000), ended: make(chan error, 1)}
	var err error
	c.Candidate, err = leadership.NewCandidate(st, election, value, &leadership.Options{Hooks: c.errs.hooks()})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.ended <- c.Run(ctx, func(ctx context.Context, term *leadership.Term) error {
			if err := term.Acknowledge(ctx); err != nil {
				return err
			}
			c.terms <- term
			<-ctx.Done()
			return nil
		})
	}()
	c.stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(c.stop)
	return c
}

// errorLog collects what the hook for errors is told.
type errorLog struct {
	mu   sync.Mutex
	list []error
}

func (l *errorLog) hooks() *leadership.Hooks {
	return &leadership.Hooks{Error: func(_ string, err error, _ time.Duration) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.list = append(l.list, err)
	}}
}

func (l *errorLog) all() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]error(nil), l.list...)
}

// oneLeader watches, until the test ends, that no two contenders of one election see themselves as leader at once.
func oneLeader(t *testing.T, contenders ...*contender) {
	t.Helper()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			for i, a := range contenders {
				for _, b := range contenders[i+1:] {
					// Both orders of reading: b between two looks at a.
					if a.IsLeader() && b.IsLeader() && a.IsLeader() {
						t.Errorf("%s and %s lead at once", a.value, b.value)
					}
				}
			}
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-done })
}

// leaderAmong waits until exactly one of the contenders leads and returns it.
func leaderAmong(t *testing.T, contenders ...*contender) *contender {
	t.Helper()
	var leader *contender
	eventually(t, func() bool {
		n := 0
		for _, c := range contenders {
			if c.IsLeader() {
				n++
				leader = c
			}
		}
		return n == 1
	}, "exactly one leader")
	return leader
}
