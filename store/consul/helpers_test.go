package consul_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

const (
	// short is a TTL with a check.
	short = time.Second
	// long is one without, which outlasts the tests that use it.
	long = 10 * time.Second
	// watchdog ends a wait for something that ought to take milliseconds, or a session timeout.
	watchdog = 40 * time.Second
)

var elections atomic.Int64

// newElection returns the name of an election that no other test uses.
func newElection() string { return fmt.Sprintf("test %06d", elections.Add(1)) }

// key is where an election's acknowledgement is, with the default settings.
func key(election string) string { return "leadership/" + election }

// open opens a store that the end of the test closes. Its agent is the shared one, its TTL long, where the
// configuration says nothing else.
func open(t *testing.T, config consul.Config) *consul.Store {
	t.Helper()
	if config.TTL == 0 {
		config.TTL = long
	}
	if config.Addresses == nil && config.Client == nil {
		config.Addresses = sharedServer(t).Addrs()[:1]
	}
	st, err := consul.Open(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

// plain is the transport of operators: what they do is none of the stores' doing.
var plain = &http.Transport{}

// operator returns a client of the server's first agent, with its management token if it has one.
func operator(t *testing.T, srv *testserver.Consul) *api.Client {
	t.Helper()
	client, err := api.NewClient(&api.Config{Address: srv.Addrs()[0], HttpClient: &http.Client{Transport: plain}})
	require.NoError(t, err)
	return client
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

// cast casts a ballot as a candidate does: again, where the service was out of reach for some time.
func cast(t *testing.T, st store.Store, election, value string) store.Ballot {
	t.Helper()
	for {
		b, err := st.Campaign(soon(t), election, value)
		if !errors.Is(err, store.ErrUnavailable) {
			require.NoError(t, err)
			return b
		}
	}
}

// castFirst casts a ballot and waits until it is first.
func castFirst(t *testing.T, st store.Store, election, value string) store.Ballot {
	t.Helper()
	b := cast(t, st, election, value)
	require.NoError(t, b.Wait(soon(t)))
	return b
}

// acknowledge acknowledges with the value.
func acknowledge(t *testing.T, b store.Ballot, value string) store.Leader {
	t.Helper()
	l, err := b.Acknowledge(soon(t), value)
	require.NoError(t, err)
	return l
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

// ballotKeys returns the pairs below an election's ballots.
func ballotKeys(t *testing.T, client *api.Client, election string) api.KVPairs {
	t.Helper()
	pairs, _, err := client.KV().List(key(election)+"/_ballots/", &api.QueryOptions{RequireConsistent: true})
	require.NoError(t, err)
	return pairs
}

// sessionOf returns the id of the session behind the ballot with a value.
func sessionOf(t *testing.T, client *api.Client, election, value string) string {
	t.Helper()
	for _, pair := range ballotKeys(t, client, election) {
		if string(pair.Value) == value {
			return pair.Session
		}
	}
	require.FailNow(t, "there is no ballot of "+value)
	return ""
}

// requireInvalid checks an error that refuses a setting.
func requireInvalid(t *testing.T, err error, field string, parts ...string) {
	t.Helper()
	require.ErrorIs(t, err, store.ErrInvalid)
	var refused *store.FieldError
	require.ErrorAs(t, err, &refused)
	require.Contains(t, refused.Field, field)
	for _, part := range parts {
		require.ErrorContains(t, err, part)
	}
}

// contender is a candidate that Run drives, and tells of its terms.
type contender struct {
	*leadership.Candidate
	terms chan *leadership.Term // acknowledged
	ended chan error            // what Run returned
	stop  func()                // ends Run and waits for it
	errs  errorLog
}

// contend lets a candidate stand until the end of the test: it leads for as long as it can.
func contend(t *testing.T, st store.Store, election, value string) *contender {
	t.Helper()
	c := &contender{terms: make(chan *leadership.Term, 1000), ended: make(chan error, 1)}
	var err error
	c.Candidate, err = leadership.NewCandidate(st, election, value, &leadership.Options{Hooks: &leadership.Hooks{Error: c.errs.add}})
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

func (l *errorLog) add(_ string, err error, _ time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, err)
}

func (l *errorLog) all() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]error(nil), l.list...)
}
