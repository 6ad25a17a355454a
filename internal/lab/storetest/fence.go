package storetest

import (
	"cmp"
	"context"
	"net"
	"testing"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// Fenced is a service in which the leaders write under the fence of their store.
type Fenced struct {
	// Open opens a store with a TTL of some seconds. The end of the test closes it.
	Open func(dial func(ctx context.Context, network, address string) (net.Conn, error)) store.Store
	// Place returns a key for the data of an election's leader.
	Place func(election string) string
	// Write writes under the fence of a ballot. An error that matches store.ErrLost says that the service has refused it.
	Write func(ctx context.Context, b store.Ballot, key, value string) error
	// Late is Write by another client, which is connected over Line.
	Late func(ctx context.Context, b store.Ballot, key, value string) error
	Line *Line
	// Writes is how many writes of the frozen leader arrive late; 100 by default.
	Writes int
	// Read returns what is at a key.
	Read func(key string) string
	// Remove removes a ballot as an operator does.
	Remove func(b store.Ballot)
}

// WritesAreFenced checks that the write of a leader is carried out, and refused once its ballot has gone, in whatever way,
// before and after its successor leads. The successor's is carried out.
func (f Fenced) WritesAreFenced(t *testing.T) {
	network := conformance.NewNetwork()
	next := f.Open(nil)
	for name, end := range map[string]func(t *testing.T, b store.Ballot, election string){
		"removed":  func(_ *testing.T, b store.Ballot, _ string) { f.Remove(b) },
		"resigned": func(t *testing.T, b store.Ballot, _ string) { require.NoError(t, b.Withdraw(Soon(t))) },
		"expired": func(t *testing.T, b store.Ballot, election string) {
			network.Cut()
			waiting := Cast(t, next, election, "waiting")
			require.NoError(t, waiting.Wait(Soon(t)), "the end of the session")
			require.NoError(t, waiting.Withdraw(Soon(t)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(network.Heal)
			election := NewElection()
			key := f.Place(election)
			old := CastFirst(t, f.Open(network.Dial), election, "old")
			require.NoError(t, f.Write(Soon(t), old, key, "first"))
			require.Equal(t, "first", f.Read(key))
			Acknowledge(t, old, "old")
			require.NoError(t, next.RequestResignation(Soon(t), election, old.Token()))
			Receive(t, old.ResignationRequested(), "the request")
			require.NoError(t, f.Write(Soon(t), old, key, "old"), "the ballot stands while the leader's work stops")
			waiting := Cast(t, next, election, "waiting")
			require.ErrorIs(t, f.Write(Soon(t), waiting, key, "waiting"), store.ErrNotFirst, "it stands")
			require.NoError(t, waiting.Withdraw(Soon(t)))

			end(t, old, election)
			require.ErrorIs(t, f.Write(Soon(t), old, key, "refused"), store.ErrLost)
			b := CastFirst(t, next, election, "next")
			require.ErrorIs(t, f.Write(Soon(t), old, key, "refused"), store.ErrLost)
			require.Equal(t, "old", f.Read(key))
			require.NoError(t, f.Write(Soon(t), b, key, "next"))
			require.ErrorIs(t, f.Write(Soon(t), old, key, "refused"), store.ErrLost)
			require.Equal(t, "next", f.Read(key))
		})
	}
}

// LateWritesAreRefused checks that the service refuses the writes of a frozen leader that arrive when its successors lead
// and have written. The leader leads many elections. It sends a write in each, and the line holds them back. Then its store
// is cut off until the session ends.
func (f Fenced) LateWritesAreRefused(t *testing.T) {
	type election struct {
		key       string
		old, next store.Ballot
		late      chan error
	}
	network := conformance.NewNetwork()
	oldStore, nextStore := f.Open(network.Dial), f.Open(nil)
	elections := make([]*election, cmp.Or(f.Writes, 100))
	send := func(e *election, value string) {
		go func() { e.late <- f.Late(Soon(t), e.old, e.key, value) }()
	}
	for i := range elections {
		name := NewElection()
		elections[i] = &election{
			key: f.Place(name), old: CastFirst(t, oldStore, name, "old"), next: Cast(t, nextStore, name, "next"), late: make(chan error, 1),
		}
	}
	first := elections[0]
	f.Line.Hold()
	send(first, "not too late")
	Eventually(t, func() bool { return f.Line.Holds(first.key) }, "the write is sent")
	f.Line.LetGo()
	require.NoError(t, Receive(t, first.late, "the answer"), "it is carried out, since the leader still leads")
	require.Equal(t, "not too late", f.Read(first.key))

	f.Line.Hold()
	for _, e := range elections {
		send(e, "too late")
	}
	for _, e := range elections {
		Eventually(t, func() bool { return f.Line.Holds(e.key) }, "the write is sent")
		require.NoError(t, e.old.Err(), "the leader leads when it sends")
	}
	network.Cut()
	for _, e := range elections {
		require.NoError(t, e.next.Wait(Soon(t)))
		require.NoError(t, f.Write(Soon(t), e.next, e.key, "next"))
	}
	f.Line.LetGo()
	for _, e := range elections {
		require.ErrorIs(t, Receive(t, e.late, "the answer"), store.ErrLost)
		require.Equal(t, "next", f.Read(e.key))
	}
	network.Heal()
}
