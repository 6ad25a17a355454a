package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ttl = 10 * time.Second

// start starts a process of the service in the bubble of the test.
func start(t *testing.T, on *memory.Service, self string) (s *service, st *memory.Store) {
	st, err := memory.Open(on, &memory.Config{TTL: ttl})
	require.NoError(t, err)
	s, err = newService(st, self)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.NoError(t, st.Close())
	})
	synctest.Wait()
	return s, st
}

// get returns the status of an answer, and its text or where it redirects to.
func get(s *service, path string) string {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
	if to := w.Header().Get("Location"); to != "" {
		return fmt.Sprint(w.Code, " ", to)
	}
	return fmt.Sprint(w.Code, " ", strings.TrimSpace(w.Body.String()))
}

// One process answers, and the other redirects to it. If the leader is cut off, it answers until its lease ends. The
// other one answers when the session has ended.
func TestLeaderIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := memory.NewService()
		a, st := start(t, on, "http://a:80")
		b, _ := start(t, on, "http://b:80")
		require.Regexp(t, `^200 http://a:80 answers /x with token \d+$`, get(a, "/x"))
		require.Equal(t, "307 http://a:80/x%20y?z=1", get(b, "/x%20y?z=1"))
		require.Equal(t, "307 http://a:80//evil/", get(b, "//evil/"))

		st.Faults().Cut()
		pass := func() { time.Sleep(time.Second); synctest.Wait() }
		for pass(); !b.candidate.IsLeader(); pass() {
			require.Equal(t, a.candidate.IsLeader(), strings.HasPrefix(get(a, "/"), "200"))
			require.Regexp(t, "^(307 http://a:80/|503 no leader at the moment)$", get(b, "/"))
		}
		require.Regexp(t, `^200 http://b:80 answers`, get(b, "/"))
		require.Equal(t, "503 no leader at the moment", get(a, "/"), "it does not send clients to itself")

		st.Faults().Heal()
		time.Sleep(ttl)
		synctest.Wait()
		require.Equal(t, "307 http://b:80/", get(a, "/"))
	})
}

// A client that follows redirects reaches the leader from each process.
func TestClientReachesTheLeader(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	var addresses []string
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		addresses = append(addresses, l.Addr().String())
		go func() { ended <- run(ctx, "memory://redirect", l, "http://"+l.Addr().String()) }()
	}
	defer func() {
		cancel()
		for range addresses {
			require.NoError(t, <-ended)
		}
	}()
	client := &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	answer := func(address string) string {
		r, err := client.Get("http://" + address + "/x")
		require.NoError(t, err)
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		return string(text)
	}
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		first := answer(addresses[0])
		require.Regexp(t, "answers /x with token", first)
		require.Equal(t, first, answer(addresses[1]))
	}, time.Minute, time.Millisecond)
}

func TestURLIsRefused(t *testing.T) {
	st, err := memory.Open(memory.NewService(), nil)
	require.NoError(t, err)
	defer st.Close()
	for _, self := range []string{"", "a:80", "/x", "http://%"} {
		_, err := newService(st, self)
		require.ErrorContains(t, err, "is not an absolute URL")
	}
}
