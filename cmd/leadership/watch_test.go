package main

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/operate"
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
		require.Zero(t, code)
	})
}

// watch says why there is no leader if the election is held.
func TestWatchShowsAHold(t *testing.T) {
	for name, test := range map[string]struct {
		json bool
		want string
	}{
		"text": {false, "  no leader, held: new disks, alice@db1\n"},
		"json": {true, `"leader":null,"hold":"new disks, alice@db1"}` + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, err := memory.Open(memory.NewService(), &memory.Config{TTL: 10 * time.Second})
				require.NoError(t, err)
				defer st.Close()
				leader, err := st.Cast(t.Context(), "job", "a")
				require.NoError(t, err)
				require.NoError(t, leader.Wait(t.Context()))
				_, err = leader.Acknowledge(t.Context(), "a")
				require.NoError(t, err)
				hold, err := operate.NewHold(t.Context(), st, "job", "new disks, alice@db1")
				require.NoError(t, err)

				ctx, stop := context.WithCancelCause(t.Context())
				c := &watchCmd{electionFlags: electionFlags{electionFlag: electionFlag{Election: "job"}}}
				c.JSON = test.json
				var out screen
				ended := make(chan error, 1)
				go func() {
					ended <- c.follow(ctx, &app{out: &out, errs: &out}, &session{Store: st, timeout: time.Second})
				}()
				synctest.Wait()
				require.NotContains(t, out.String(), "new disks")
				require.NoError(t, leader.Withdraw(t.Context()))
				synctest.Wait()
				require.True(t, strings.HasSuffix(out.String(), test.want), out.String())
				require.NoError(t, hold.Release(t.Context()))
				stop(interrupted{15})
				<-ended
			})
		})
	}
}
