package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	// ttl is the TTL of most tests: the shortest that the servers grant.
	ttl = 2 * time.Second
	// middling is one for tests in which a session has to outlast some renewals that fail.
	middling = 4 * time.Second
	// long is one that a test uses where losing the session to a slow machine would spoil it.
	long = 20 * time.Second
	// watchdog ends a wait for something that ought to take milliseconds, or a TTL.
	watchdog = 40 * time.Second
)

var elections atomic.Int64

// newElection returns the name of an election that no other test uses.
func newElection() string { return fmt.Sprintf("test %06d", elections.Add(1)) }

// ackKey is where an election's acknowledged value is, with the default settings.
func ackKey(election string) string { return "leadership/" + election }

// ballotKeys is what the keys of its ballots begin with.
func ballotKeys(election string) string { return ackKey(election) + "/_ballots/" }

// open opens a store that the end of the test closes. Its TTL is ttl where the configuration names none, and its
// servers are the shared one where it names none.
func open(t *testing.T, config etcd.Config) *etcd.Store {
	t.Helper()
	if config.TTL == 0 {
		config.TTL = ttl
	}
	if config.Client == nil && config.Endpoints == nil {
		config.Endpoints = sharedServer(t).Addrs()
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	st, err := etcd.Open(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

// operator returns a client with which a test looks and meddles. Where no endpoints are given it is the shared server's.
func operator(t *testing.T, endpoints ...string) *clientv3.Client {
	t.Helper()
	if len(endpoints) == 0 {
		endpoints = sharedServer(t).Addrs()
	}
	return connect(t, clientv3.Config{Endpoints: endpoints})
}

func connect(t *testing.T, config clientv3.Config) *clientv3.Client {
	t.Helper()
	config.Logger, config.DialTimeout = zap.NewNop(), watchdog
	client, err := clientv3.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// keys lists the keys with a prefix in the order of their creation.
func keys(t *testing.T, client *clientv3.Client, prefix string) []string {
	t.Helper()
	resp, err := client.Get(soon(t), prefix, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	require.NoError(t, err)
	list := []string{}
	for _, kv := range resp.Kvs {
		list = append(list, string(kv.Key))
	}
	return list
}

// ballotOf returns the key of the ballot with the value, and its lease.
func ballotOf(t *testing.T, client *clientv3.Client, election, value string) (key string, lease clientv3.LeaseID) {
	t.Helper()
	resp, err := client.Get(soon(t), ballotKeys(election), clientv3.WithPrefix())
	require.NoError(t, err)
	for _, kv := range resp.Kvs {
		if string(kv.Value) == value {
			return string(kv.Key), clientv3.LeaseID(kv.Lease)
		}
	}
	require.FailNow(t, "no ballot of "+value)
	panic("unreachable")
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
