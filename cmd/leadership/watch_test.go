package main

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
)

// screen keeps what is written to it, by several goroutines.
type screen struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// watch prints once that the store does not answer, and once that it answers again, and goes on.
func TestWatchSurvivesAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, err := memory.Open(memory.NewService(), &memory.Config{TTL: 10 * time.Second})
		require.NoError(t, err)
		defer st.Close()
		ctx, stop := context.WithCancelCause(t.Context())
		c := &watchCmd{electionFlags: electionFlags{electionFlag: electionFlag{Election: "job"}}}
		var out, errs screen
		ended := make(chan error, 1)
		go func() {
			ended <- c.follow(ctx, &app{out: &out, errs: &errs}, &session{Store: st, address: "the store"})
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Regexp(t, `^\d\d:\d\d:\d\d\.\d\d\d  no leader\n$`, out.String())
		require.Empty(t, errs.String())

		st.Faults().Cut()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Regexp(t, `^leadership: warning: the store has been silent since \d\d:\d\d:\d\d, still trying\n$`, errs.String())
		st.Faults().Heal()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.True(t, strings.HasSuffix(errs.String(), "\nleadership: warning: the store answers again\n"), errs.String())
		require.Equal(t, 2, strings.Count(errs.String(), "\n"))

		b, err := st.Cast(ctx, "job", "a")
		require.NoError(t, err)
		require.NoError(t, b.Wait(ctx))
		_, err = b.Acknowledge(ctx, "a")
		require.NoError(t, err)
		synctest.Wait()
		require.True(t, strings.HasSuffix(out.String(), "  leader  a\n"), out.String())
		stop(interrupted{15})
		code, _ := explain(<-ended)
		require.Equal(t, 143, code)
	})
}
