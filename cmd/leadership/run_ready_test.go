package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/cmd/leadership/internal/guard"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// A command reads its own value as the leader's as soon as it runs, unless a flag says when it has taken over.
func TestLeaderBeforeTheCommand(t *testing.T) {
	for _, r := range []readiness{{}, {exec: "true", timeout: time.Minute}} {
		virtual(t, func(w *world) {
			w.runner.ready, w.answer = r, func(string) int { return 0 }
			leader := "not started"
			w.starts = func() { leader = w.leader() }
			over := w.run()
			w.program(1).exit(guard.Result{})
			require.Equal(w, outcome{kind: exited}, <-over)
			require.Equal(w, map[bool]string{true: "a", false: ""}[r == readiness{}], leader)
		})
	}
}

// silent is a store whose acknowledgements get no answer, or an error.
type silent struct {
	store.Store
	err error // or nil
}

type silentBallot struct {
	store.Ballot
	err error
}

func (s silent) Cast(ctx context.Context, election, value string) (store.Ballot, error) {
	b, err := s.Store.Cast(ctx, election, value)
	return silentBallot{b, s.err}, err
}

func (b silentBallot) Acknowledge(ctx context.Context, _ string) (store.Leader, error) {
	if b.err == nil {
		<-ctx.Done()
		return store.Leader{}, ctx.Err()
	}
	return store.Leader{}, b.err
}

// No command is started if the leadership can't be acknowledged.
func TestNoCommandWithoutAcknowledgement(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		end  func(w *world)
		kind kind
		code int
	}{
		"a signal": {nil, func(w *world) { w.signal(syscall.SIGTERM) }, final, 143},
		"a loss":   {nil, func(w *world) { w.service.Delete("job", w.token()) }, final, exitUnavailable}, // it stands again, until --wait is over
		"--wait":   {nil, func(w *world) { w.at(time.Minute) }, final, exitUnavailable},
		"a denial": {store.ErrDenied, func(*world) {}, failed, exitDenied},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(w *world) {
				w.runner.store = silent{w.store, test.err}
				w.runner.wait = time.Minute
				over := w.run()
				test.end(w)
				o := <-over
				require.Equal(w, [2]int{int(test.kind), test.code}, [2]int{int(o.kind), o.code}, "%v", o.err)
				require.Zero(w, w.started())
				require.Empty(w, w.ballots())
			})
		})
	}
}

// Followers know the leader when the command is ready, and not before.
func TestReadyExec(t *testing.T) {
	virtual(t, func(w *world) {
		ready := false
		w.runner.ready = readiness{exec: "is it?", timeout: time.Minute}
		w.answer = func(line string) int {
			require.Equal(w, "is it?", line)
			if !ready {
				return 1
			}
			return 0
		}
		over := w.run()
		c := w.program(1)
		w.at(30 * time.Second)
		require.Empty(w, w.leader())
		w.mu.Lock()
		ready = true
		w.mu.Unlock()
		w.at(31 * time.Second)
		require.Equal(w, "a", w.leader())
		c.exit(guard.Result{})
		require.Equal(w, outcome{kind: exited}, <-over)
	})
}

// The error of a command that is not ready is that of the last probe which was not cut short by the timeout.
func TestNotReadySaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		asked := 0
		err := repeated(func(ctx context.Context) error {
			if asked++; asked == 1 {
				return errors.New("it has ended with exit code 1")
			}
			<-ctx.Done()
			return ctx.Err()
		})(ctx)
		require.EqualError(t, err, "it has ended with exit code 1")
		require.Equal(t, 2, asked)
	})
}

// A command that is not ready in time is stopped: the takeover has failed. So is one whose acknowledgement is refused.
func TestNotReady(t *testing.T) {
	virtual(t, func(w *world) {
		w.runner.ready = readiness{exec: "false", timeout: time.Minute}
		w.answer = func(string) int { return 3 }
		over := w.run()
		c := w.program(1)
		w.at(time.Minute - 1)
		require.Empty(w, c.told())
		w.at(time.Minute)
		require.Equal(w, []string{"stop in 30s"}, c.told())
		require.Equal(w, []string{"a"}, w.ballots())
		require.Empty(w, w.leader())
		c.exit(guard.Result{Code: 143, Cause: guard.Stopped})
		o := <-over
		require.Equal(w, [2]int{int(failed), exitFailed}, [2]int{int(o.kind), o.code})
		require.ErrorContains(w, o.err, "the takeover has failed: the command is not ready after 1m0s: --ready-exec: it has ended with exit code 3")
	})
}

// A command that ends before it is ready has its own exit code.
func TestExitBeforeReady(t *testing.T) {
	virtual(t, func(w *world) {
		w.runner.ready = readiness{exec: "false", timeout: time.Minute}
		w.answer = func(string) int { return 3 }
		over := w.run()
		w.at(time.Second)
		w.program(1).exit(guard.Result{Code: 7})
		require.Equal(w, outcome{kind: exited, code: 7}, <-over)
		require.Equal(w, time.Second, w.now())
	})
}

func TestReadyHTTP(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	address := strings.Replace(server.URL, "://", "://me:secret@", 1) + "/ready?token=secret"
	require.EqualError(t, answers(t.Context(), address), server.URL+"/ready answers 503 Service Unavailable")
	r := readiness{url: address, timeout: time.Minute}
	asked.Store(0)
	require.NoError(t, r.await(t.Context(), nil, nil))
	require.EqualValues(t, 2, asked.Load())
	server.Close()
	r.timeout = 10 * time.Millisecond
	err := r.await(t.Context(), nil, nil)
	require.ErrorContains(t, err, "not ready after 10ms")
	require.NotContains(t, err.Error(), "secret")
	require.NotContains(t, answers(t.Context(), address).Error(), "secret")
}

func TestReadyFD(t *testing.T) {
	t.Parallel()
	r := readiness{fd: true, timeout: time.Minute}
	begin := func() *readySignal {
		s, err := r.begin()
		require.NoError(t, err)
		t.Cleanup(s.close)
		require.Len(t, s.files(), 1)
		require.Equal(t, []string{"LEADERSHIP_READY_FD=3"}, s.env())
		return s
	}
	s := begin()
	_, err := s.write.WriteString("\n")
	require.NoError(t, err)
	require.NoError(t, r.await(t.Context(), nil, s))

	s = begin()
	s.started()
	require.ErrorContains(t, r.await(t.Context(), nil, s), "closed LEADERSHIP_READY_FD")

	s = begin()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	require.ErrorIs(t, r.await(ctx, nil, s), context.Canceled)
	r.timeout = 10 * time.Millisecond
	require.ErrorContains(t, r.await(t.Context(), nil, begin()), "not ready after 10ms: nothing was written")
}

// A probe that takes too long is repeated.
func TestReadyAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, asked := time.Now(), 0
		require.NoError(t, repeated(func(ctx context.Context) error {
			if asked++; asked == 3 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		})(t.Context()))
		require.Equal(t, 2*(readyPatience+readyInterval), time.Since(began))
	})
}
