package guard

import (
	"encoding/json"
	"io"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestRenewalWhileStopping checks that a command which was asked to stop has until the lease ends, by its last renewal.
func TestRenewalWhileStopping(t *testing.T) {
	eachGuardedMode(t, func(t *testing.T, m Mode) {
		renewed := t.TempDir() + "/renewed"
		p, r := startShell(t, m, `
			trap 'echo term >&3; until [ -e "$RENEWED" ]; do sleep 0.01; done; exit 3' TERM
			echo >&3; while :; do sleep 0.05; done`, func(c *Config) {
			c.Env = append(os.Environ(), "RENEWED="+renewed)
		})
		defer time.AfterFunc(long, p.Kill).Stop()
		readLine(t, r)
		v := p.r.(*supervisor)
		p.Stop(long / 2)
		readLine(t, r)
		require.NoError(t, p.Renew(lasts(2*long)))
		require.Eventually(t, func() (taken bool) {
			_ = v.call(func() error { taken = v.kill > now().add(long); return nil })
			return taken
		}, long/2, time.Millisecond, "the guardian did not take the renewal")
		require.NoError(t, os.WriteFile(renewed, nil, 0o600))
		require.Equal(t, Result{Code: 3, Cause: Stopped}, p.Wait())
	})
}

// TestGuardianDiesBeforeTheCommand lets the guardian die after it has cloned the init, and before the command is
// started.
func TestGuardianDiesBeforeTheCommand(t *testing.T) {
	eachGuardedMode(t, func(t *testing.T, m Mode) {
		if m.Kind != Namespace {
			return // no init
		}
		r, w, err := os.Pipe()
		require.NoError(t, err)
		defer r.Close()
		c := shell(m, "echo >&3")
		c.Files, c.Env = []*os.File{w}, append(os.Environ(), "LEADERSHIP_TEST_DIE=yes")
		_, err = Start(c, lasts(long))
		require.ErrorContains(t, err, "the guardian ended before the command ran: signal: killed")
		require.NoError(t, w.Close())
		_, err = r.Read(make([]byte, 1))
		require.Error(t, err, "the command ran")
	})
}

// TestSupervisorAndGuardianDieBeforeTheCommand checks that an init which is left alone starts nothing.
func TestSupervisorAndGuardianDieBeforeTheCommand(t *testing.T) {
	eachGuardedMode(t, func(t *testing.T, m Mode) {
		if m.Kind != Namespace {
			return // no init
		}
		r, w, err := os.Pipe()
		require.NoError(t, err)
		defer r.Close()
		data, err := json.Marshal(m)
		require.NoError(t, err)
		v := variant{uid: os.Getuid()}
		cmd := v.command(t, "supervisor", "LEADERSHIP_TEST_MODE="+string(data), "LEADERSHIP_TEST_DIE=both")
		cmd.ExtraFiles = []*os.File{w, w, w, w}
		require.ErrorContains(t, cmd.Run(), "killed")
		require.NoError(t, w.Close())
		_, err = r.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF, "the command ran")
	})
}

// TestSlowStart checks that a slow start goes on beyond the first lease if the lease is renewed, and starts nothing
// otherwise.
func TestSlowStart(t *testing.T) {
	t.Parallel()
	eachGuardedMode(t, func(t *testing.T, m Mode) {
		t.Parallel()
		for _, who := range []string{guardianName, initName} {
			if who == initName && m.Kind != Namespace {
				continue
			}
			fates := []string{"renewed", "lost"}
			if who == initName {
				fates = append(fates, "not renewed") // of a slow guardian see TestLeaseThatHasEnded
			}
			for _, fate := range fates {
				t.Run(who+" "+fate, func(t *testing.T) {
					apart(t, func(t *testing.T) { slowStart(t, m, who, fate) })
				})
			}
		}
	})
}

func slowStart(t *testing.T, m Mode, who, fate string) {
	meter := stall.Watch(t)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	c := shell(m, "echo >&3; exec sleep 1000")
	c.TTL, c.StopTimeout, c.Files = 20*time.Second, time.Second, []*os.File{w}
	ends := now().add(8 * time.Second) // TERM would be sent after 5 s, KILL after 6 s
	runs := now().add(map[string]time.Duration{
		"renewed": 5200 * time.Millisecond, "not renewed": 6800 * time.Millisecond, "lost": time.Minute,
	}[fate])
	c.Env = append(os.Environ(), "LEADERSHIP_TEST_SLOW="+who+" "+strconv.FormatInt(int64(runs), 10))
	asked := 0
	p, err := Start(c, func() time.Duration {
		switch asked++; {
		case asked > 5 && fate == "renewed":
			return c.TTL
		case asked > 5 && fate == "lost":
			return 0
		}
		return ends.sub(now())
	})
	returned, stalled := now(), meter.Stalled()
	require.NoError(t, w.Close())
	_, ran := r.Read(make([]byte, 1))
	if err == nil {
		p.Kill()
		p.Wait()
	}
	if fate == "renewed" {
		require.NoError(t, err)
		require.NoError(t, ran)
		return
	}
	require.ErrorIs(t, err, ErrLate)
	require.ErrorIs(t, ran, io.EOF, "the command ran")
	if fate == "lost" { // Start returns before the guardian would be killed for its silence
		ends = ends.add(-2 * time.Second)
	}
	require.Less(t, returned, ends.add(stalled), "Start has returned late; %v", meter)
}

// TestStoppedInit checks that the guardian continues an init which another process has stopped.
func TestStoppedInit(t *testing.T) {
	eachGuardedMode(t, func(t *testing.T, m Mode) {
		if m.Kind != Namespace {
			return // no init
		}
		p, r := startShell(t, m, `trap 'echo heard >&3' USR2; echo >&3; while :; do sleep 0.01; done`)
		readLine(t, r)
		init, err := childrenOf(strconv.Itoa(p.r.(*supervisor).guardian))
		require.NoError(t, err)
		require.NoError(t, unix.Kill(init[0], unix.SIGSTOP))
		require.NoError(t, p.Signal(unix.SIGUSR2))
		require.Equal(t, "heard", readLine(t, r))
		p.Kill()
		p.Wait()
	})
}

// TestRepeatedReportTakesNoTime checks that the same report once more does not end the second wait for the guardian.
func TestRepeatedReportTakesNoTime(t *testing.T) {
	ours, theirs, err := newLinks()
	require.NoError(t, err)
	defer ours.file.Close()
	defer theirs.file.Close()
	v := &supervisor{link: ours, patience: long, watch: time.NewTimer(long)}
	v.kill = now().add(-2 * long)
	v.overdue()
	v.handle(report{Kill: v.kill})
	select {
	case <-v.watch.C:
		require.Fail(t, "the watch has expired")
	case <-time.After(50 * time.Millisecond):
	}
}

// TestStoppedSupervisor checks that a supervisor which was stopped reads what the guardian has reported meanwhile
// before it takes the guardian for silent.
func TestStoppedSupervisor(t *testing.T) {
	eachGuardedMode(t, func(t *testing.T, m Mode) {
		p, _ := startShell(t, m, "exec sleep 1000")
		v := p.r.(*supervisor)
		for range 20 { // select chooses at random
			require.NoError(t, v.call(func() error {
				for v.guardian != 0 && !v.link.pending() { // the last answer may have been read, and wait for loop
					if err := v.send(request{Deadline: now().add(long)}); err != nil {
						return err
					}
					_, _ = unix.Poll([]unix.PollFd{{Fd: int32(v.link.fd), Events: unix.POLLIN}}, 10)
				}
				v.kill = now().add(-long) // as if the time had passed
				v.setWatch()
				return nil
			}))
			require.Eventually(t, func() (answered bool) {
				_ = v.call(func() error { answered = v.kill > now() || v.silent; return nil })
				return answered
			}, long, time.Millisecond)
		}
		p.Kill()
		require.Equal(t, Killed, p.Wait().Cause)
		require.False(t, v.silent)
	})
}
