package browsertest

import (
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/go-leadership/leadership/cmd/leadership/internal/serve"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
)

// world is a service, a store for candidates, and a server of the page.
type world struct {
	*testing.T
	open       func() store.Store
	candidates store.Store
	address    string // of the server, the same each time it is started
}

// newWorld returns one in memory. Nothing is served before start.
func newWorld(t *testing.T) *world {
	service := memory.NewService()
	return worldOn(t, func() store.Store {
		st, err := memory.Open(service, &memory.Config{TTL: time.Minute}) // no test waits for the end of a session
		require.NoError(t, err)
		return st
	})
}

func worldOn(t *testing.T, open func() store.Store) *world {
	w := &world{T: t, open: open, candidates: open(), address: "127.0.0.1:0"}
	t.Cleanup(func() { require.NoError(t, w.candidates.Close()) })
	return w
}

// url is that of the page.
func (w *world) url() string { return "http://" + w.address + "/" }

// start starts a server. What it returns stops it; the end of the test does too.
func (w *world) start() (stop func()) {
	w.Helper()
	st := w.open()
	s, err := serve.New(serve.Config{Store: st, Address: "etcd://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379/prod", Bound: patience})
	require.NoError(w, err)
	l, err := net.Listen("tcp", w.address)
	require.NoError(w, err)
	w.address = l.Addr().String()
	server := &http.Server{Handler: s}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		require.NoError(w, errors.Join(s.Close(), server.Close()))
		require.ErrorIs(w, <-ended, http.ErrServerClosed)
		require.NoError(w, st.Close())
	}
	w.Cleanup(stop)
	return stop
}

// stand casts ballots in an election, and acknowledges the first if it is first in line.
func (w *world) stand(election string, values ...string) (ballots []store.Ballot) {
	w.Helper()
	for _, value := range values {
		b, err := w.candidates.Cast(w.Context(), election, value)
		require.NoError(w, err)
		ballots = append(ballots, b)
	}
	w.lead(ballots[0], values[0])
	return ballots
}

func (w *world) lead(b store.Ballot, value string) {
	w.Helper()
	require.NoError(w, b.Wait(w.Context()))
	_, err := b.Acknowledge(w.Context(), value)
	require.NoError(w, err)
}

func (w *world) withdraw(b store.Ballot) {
	w.Helper()
	require.NoError(w, b.Withdraw(w.Context()))
}
