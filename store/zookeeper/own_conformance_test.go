package zookeeper_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/harness"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/go-zookeeper/zk"
)

// callersStore is a store on a connection of the caller's, which closes that after the store.
type callersStore struct {
	*zookeeper.Store
	closeConn func()
}

func (s callersStore) Close() error {
	err := s.Store.Close()
	s.closeConn()
	return err
}

// openOnCallers returns a function that opens stores, each on a connection of the client library's own.
func openOnCallers(ttl, grace time.Duration, servers ...string) func(context.Context, conformance.DialFunc) (store.Store, error) {
	return func(_ context.Context, dial conformance.DialFunc) (store.Store, error) {
		conn, events, err := zk.Connect(servers, ttl, zk.WithLogger(silent{}),
			zk.WithDialer(mend(dial)))
		if err != nil {
			return nil, err
		}
		closeConn := func() {
			conn.Close()
			for range events { // until the library has ended
			}
		}
		st, err := zookeeper.Open(zookeeper.Config{Conn: conn, TTL: ttl, Grace: grace})
		if err != nil {
			closeConn()
			return nil, err
		}
		return callersStore{st, closeConn}, nil
	}
}

// The whole suite on stores that have a caller's connection each. Cases wait more than they work: some run side by side,
// apart from those that count goroutines and requests.
func TestCallersConnectionConforms(t *testing.T) {
	kind, servers := harness.ZooKeeper, sharedServer(t).Addrs()
	on := func(kind harness.Kind) conformance.Harness {
		h := kind.On(t, servers...)
		h.Open = openOnCallers(kind.TTL, 0, servers...)
		h.OpenLeast = openOnCallers(kind.TTL, kind.TTL/12, servers...)
		h.Lingering = kind.TTL + kind.TTL/6 + time.Second // a busy machine takes that second
		return h
	}
	h, patient := on(kind), on(kind.Patiently())
	var side []conformance.Case
	for _, c := range conformance.Cases() {
		if slices.Contains(c.Promises, "G6") || slices.Contains(c.Promises, "G7") {
			t.Run(c.Name, func(t *testing.T) { c.Check(t, h) })
			continue
		}
		side = append(side, c)
	}
	var cases sync.WaitGroup
	defer cases.Wait()
	turns := make(chan struct{}, 4)
	for _, c := range side {
		turns <- struct{}{}
		cases.Go(func() {
			defer func() { <-turns }()
			h := h
			if c.Name == "lost-reply-to-an-acknowledgement" {
				h = patient // the lease outlasts the second for which the library waits before it dials its only server
			}
			t.Run(c.Name, func(t *testing.T) { c.Check(t, h) })
		})
	}
}
