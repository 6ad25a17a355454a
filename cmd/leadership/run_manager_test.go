package main

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/cmd/leadership/internal/guard"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
)

// A manager that does not read its messages does not delay the renewals that the command is told of.
func TestManagerThatDoesNotRead(t *testing.T) {
	dir, err := os.MkdirTemp("", "notify")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	socket := &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"}
	conn, err := net.ListenUnixgram("unixgram", socket)
	require.NoError(t, err)
	defer conn.Close()
	full, err := net.DialUnix("unixgram", nil, socket)
	require.NoError(t, err)
	defer full.Close()
	for err == nil {
		require.NoError(t, full.SetWriteDeadline(time.Now().Add(10*time.Millisecond)))
		_, err = full.Write([]byte("full"))
	}
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)

	st, err := memory.Open(memory.NewService(), nil)
	require.NoError(t, err)
	defer st.Close()
	p := &unread{fake: fake{results: make(chan guard.Result, 1)}, guarded: make(chan struct{})}
	r := &runner{
		manager: manager{socket: socket.Name, patience: time.Minute}, log: slog.New(slog.DiscardHandler), store: st,
		start: func(spec, func() time.Duration) (process, error) { return p, nil },
	}
	candidate, err := leadership.NewCandidate(r.store, "job", "a", nil)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	over, gone := make(chan outcome, 1), make(chan struct{})
	go func() {
		defer close(gone)
		_ = candidate.Run(ctx, func(_ context.Context, term *leadership.Term) error {
			over <- r.lead(term)
			cancel()
			return nil
		})
	}()
	select {
	case <-p.guarded:
	case <-time.After(30 * time.Second):
		t.Error("the command is not guarded, since the manager does not read")
	}
	for buffer := make([]byte, 100); !strings.HasPrefix(string(buffer), "STATUS=Leads"); {
		_, err := conn.Read(buffer)
		require.NoError(t, err)
	}
	p.results <- guard.Result{Code: 7, Cause: guard.Exited}
	require.Equal(t, outcome{kind: exited, code: 7}, <-over)
	<-gone
}

// unread is a command with a channel that says when it is guarded.
type unread struct {
	fake
	guarded chan struct{} // closed by Wait
}

func (u *unread) Wait() guard.Result {
	close(u.guarded)
	return u.fake.Wait()
}
