package file

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// TestDirectoryIsRemoved: the leader is told at its next renewal, long before its deadline. A process that has only
// been in another election gets a higher token than all before. Followers learn of it.
func TestDirectoryIsRemoved(t *testing.T) {
	t.Parallel()
	meter := stall.Watch(t)
	c := configWith(t.TempDir()+"/store", 8*time.Second)
	st, other, follower := openWith(t, c, kernel{}), openWith(t, c, kernel{}), openWith(t, c, kernel{})
	_, err := other.Cast(soon(t), "another", "two")
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, lead(t, st, "one").Withdraw(soon(t)))
	}
	b := lead(t, st, "one")
	leads(t, follower, "one")
	began := time.Now()
	require.NoError(t, os.Rename(c.Directory, c.Directory+".removed")) // what is removed piece by piece is made again
	<-b.Lost()
	require.ErrorIs(t, b.Err(), store.ErrLost)
	require.Less(t, time.Since(began), c.TTL*3/4+meter.Stalled(), "%v", meter)
	require.NoError(t, st.Close())
	next := lead(t, other, "two")
	require.Greater(t, next.Token(), b.Token())
	leads(t, follower, "two")
}

// TestFullDisk: a leader goes on and can resign. Calls that need space fail, and say so.
func TestFullDisk(t *testing.T) {
	waits(t)
	needRoot(t)
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skip("NOT TESTED: a small file system can't be mounted:", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	c := configWith(dir+"/store", 4*time.Second)
	st, other := openWith(t, c, kernel{}), openWith(t, c, kernel{})
	b := lead(t, st, "one")
	next, err := other.Cast(soon(t), "e", "two")
	require.NoError(t, err)

	require.ErrorIs(t, os.WriteFile(dir+"/filler", make([]byte, 1<<20), 0o600), syscall.ENOSPC)
	for i, failed := 0, 0; failed < 100; i++ { // also what the counters of other processors have left
		if err := os.WriteFile(fmt.Sprint(dir, "/", i), []byte("x"), 0o600); err != nil {
			require.ErrorIs(t, err, syscall.ENOSPC)
			failed++
		}
	}
	_, err = b.Acknowledge(soon(t), "three")
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorContains(t, err, "no space left")
	_, err = other.Cast(soon(t), "e", "four")
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorContains(t, err, "no space left")
	renewed := b.Lease().Last().Changed
	<-renewed
	require.NoError(t, b.Err(), "it still leads")
	require.NoError(t, b.Withdraw(soon(t)))
	require.NoError(t, next.Wait(soon(t)))
	require.NoError(t, os.Remove(dir+"/filler"))
	_, err = next.Acknowledge(soon(t), "two")
	require.NoError(t, err)
}

// TestPartsAreRemoved: whatever an operator removes, tokens and revisions grow, in the process that has used the
// directory and in one that is new to it, and no two processes get the same.
func TestPartsAreRemoved(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"e/e/_q", "e/e/_a", "e/e/_b", "e/e", "e", "f", "version", "t", ""} {
		t.Run(strings.ReplaceAll(part, "/", " "), func(t *testing.T) {
			c := configIn(t.TempDir() + "/store")
			old := driverWith(t, c, kernel{})
			var token, revision uint64
			next := func(d *driver) {
				t.Helper()
				s, entry := sessionOf(t, d), engine.Entry{}
				for turn := range uint64(3) {
					var err error
					entry, err = s.Enter(soon(t), "e", engine.Nonce{Name: unique(), Turn: turn + 1}, "value")
					require.NoError(t, err)
					require.Greater(t, entry.Token, token)
					token = entry.Token
					number, err := s.Acknowledge(soon(t), entry, "value")
					require.NoError(t, err)
					require.Greater(t, number, revision)
					revision = number
				}
			}
			remove := func() {
				t.Helper()
				old.life.Wait()                       // nothing is made meanwhile
				storetest.Eventually(t, func() bool { // processes do not start for ever each few milliseconds
					return uint64(time.Now().UnixMicro()) > max(token, revision)
				}, "the clock passes the numbers")
				require.NoError(t, os.RemoveAll(path.Join(c.Directory, part)))
			}
			for range 3 {
				next(old)
				remove()
				next(old)
				remove()
				other := driverWith(t, c, kernel{})
				next(other)
				other.life.Wait()
				remove()
			}
		})
	}
}

// TestPartsComeBack: an operator moves a part of the directory away. When another candidate leads, that part is moved
// back, or copied back to what has been made meanwhile. The old tickets are there again, of sessions that go on, and no
// candidate knows of its old ballot. There is a leader again, of which followers are told.
func TestPartsComeBack(t *testing.T) {
	for _, part := range []string{"e", "e/a/b", "e/a/b/_b"} {
		for _, way := range []string{"moved", "copied"} {
			t.Run(strings.ReplaceAll(part, "/", " ")+" "+way, func(t *testing.T) {
				t.Parallel()
				partComesBack(t, part, way == "moved")
			})
		}
	}
}

func partComesBack(t *testing.T, part string, moved bool) {
	c := configWith(t.TempDir()+"/store", 3*time.Second)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	resign := make(chan struct{}, 1)
	var leaders [3]atomic.Uint64 // the tokens with which they lead
	for i := range leaders {
		candidate, err := leadership.NewCandidate(openWith(t, c, kernel{}), "a/b", fmt.Sprint(i), nil)
		require.NoError(t, err)
		over := make(chan error, 1)
		go func() {
			over <- candidate.Run(ctx, func(ctx context.Context, term *leadership.Term) error {
				leaders[i].Store(term.Token())
				defer leaders[i].Store(0)
				if err := term.Acknowledge(ctx); err != nil {
					return err
				}
				select {
				case <-resign:
				case <-ctx.Done():
				}
				return nil
			})
		}()
		defer func() {
			stop()
			require.ErrorIs(t, <-over, context.Canceled)
		}()
	}
	follower, err := leadership.NewFollower(openWith(t, c, kernel{}), "a/b", nil)
	require.NoError(t, err)
	follower.Start()
	defer follower.Stop()

	// leads waits until one leads, with a token above the last one, and the follower knows.
	var last uint64
	back := false
	leads := func(when string) {
		t.Helper()
		storetest.Eventually(t, func() bool {
			value, ok := follower.Leader()
			for i := range leaders {
				token := leaders[i].Load()
				if back && token > 0 && token <= last { // its ballot was not touched, or is there again
					select {
					case resign <- struct{}{}:
					default:
					}
				}
				if token > last && ok && value.Value == fmt.Sprint(i) {
					last = token
					return true
				}
			}
			return false
		}, "one leads %s", when)
	}
	leads("at first")
	path, away := c.Directory+"/"+part, c.Directory+"/away"
	require.NoError(t, os.Rename(path, away))
	leads("while it is away")
	if moved {
		for i, err := 0, error(syscall.ENOTEMPTY); errors.Is(err, syscall.ENOTEMPTY); i++ { // a store has made the part again
			require.NoError(t, os.Rename(path, fmt.Sprint(away, i)))
			if err = os.Rename(away, path); !errors.Is(err, syscall.ENOTEMPTY) {
				require.NoError(t, err)
			}
		}
	} else {
		out, err := exec.Command("cp", "-a", away+"/.", path).CombinedOutput()
		if err != nil { // a store removes a ballot of no session as soon as it sees one
			require.Regexp(t, `^(cp: .*: No such file or directory\n)+$`, string(out))
		}
	}
	back = true
	leads("when it is back")
}

// TestDirectoryIsRemovedUnderProcesses: some process leads again, with a higher token, each time the directory is removed.
func TestDirectoryIsRemovedUnderProcesses(t *testing.T) {
	waits(t)
	c := newChaos(t, 5, 2*time.Second, 0)
	defer func() {
		for _, p := range c.members {
			c.bury(p)
		}
	}()
	var last uint64
	for range 3 {
		led := func() bool {
			for _, p := range c.members {
				require.False(t, p.hasEnded(), "%s has ended by itself: %s", p.name, p.errors)
				if token, leads := p.journal.leads(); leads && token > last {
					last = token
					return true
				}
			}
			return false
		}
		storetest.Eventually(t, led, "a leader with a token above %d", last)
		if err := os.RemoveAll(c.directory + "/store"); err != nil { // what is made meanwhile stays
			require.True(t, errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.ENOENT), "%v", err)
		}
	}
}

// TestFullDiskUnderProcesses: the disk is full for more than a TTL, and then has room again. Each process survives and
// leads again, no two lead at a time, and tokens grow.
func TestFullDiskUnderProcesses(t *testing.T) {
	waits(t)
	needRoot(t)
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skip("NOT TESTED: a small file system can't be mounted:", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	c := newChaos(t, 0, time.Second, 0)
	c.store = dir + "/store"
	c.grow(3)
	last := c.leadsAbove(0)
	for range 2 {
		end := time.Duration(math.MaxInt64)
		var fillers []string
		for ; bootTime() < end; time.Sleep(time.Millisecond) { // all space that becomes free
			name := fmt.Sprint(dir, "/", len(fillers))
			if err := os.WriteFile(name, make([]byte, 16<<10), 0o600); err != nil {
				require.ErrorIs(t, err, syscall.ENOSPC)
				end = min(end, bootTime()+c.ttl*3/2)
			}
			fillers = append(fillers, name)
		}
		for _, name := range fillers {
			if err := os.Remove(name); !missing(err) {
				require.NoError(t, err)
			}
		}
		now := uint64(0)
		for _, p := range c.members {
			require.False(t, p.hasEnded(), "%s has ended by itself: %s", p.name, p.errors)
			token, _ := p.journal.leads()
			now = max(now, token)
		}
		last = c.leadsAbove(max(last, now))
	}
	c.end()
}

// TestDirectoryIsLockedUnderProcesses: the processes of a user may not read the directory any more, or not write to it.
// They report that and end. When they may again, others lead, with higher tokens.
func TestDirectoryIsLockedUnderProcesses(t *testing.T) {
	waits(t)
	needRoot(t)
	c := newChaos(t, 0, time.Second, 0)
	require.NoError(t, os.Chmod(reachable(t, c.directory), 0o777))
	c.as = []func(*exec.Cmd){func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: someone, Gid: group}}
	}}
	last := uint64(0)
	for _, mode := range []os.FileMode{0, 0o500} {
		c.grow(3)
		last = c.leadsAbove(last)
		locked := []string{"/e/chaos/_b", "/e/chaos/_q", "/e/chaos/_a", "/e/chaos", "/s", "/t", "/f", ""} // upwards
		for _, path := range locked {
			require.NoError(t, os.Chmod(c.store+path, mode))
		}
		for _, p := range c.members {
			select {
			case <-p.done:
				require.Contains(t, p.errors.String(), store.ErrDenied.Error())
			case <-soon(t).Done():
				require.Fail(t, "the process does not end", "mode %v", mode)
			}
			token, _ := p.journal.leads()
			last = max(last, token)
		}
		c.end()
		for _, path := range locked {
			require.NoError(t, os.Chmod(c.store+path, 0o700))
		}
	}
	c.grow(3)
	c.leadsAbove(last)
	c.end()
}

// leadsAbove waits until a process leads with a token that is higher than one, and returns its token.
func (c *chaos) leadsAbove(last uint64) (token uint64) {
	c.t.Helper()
	storetest.Eventually(c.t, func() bool {
		for _, p := range c.members {
			if now, leads := p.journal.leads(); leads && now > last {
				token = now
				return true
			}
		}
		return false
	}, "a leader with a token above %d", last)
	return token
}

// end ends all processes, and requires that no two led at a time and that tokens grew.
func (c *chaos) end() {
	for _, p := range c.members {
		c.bury(p)
	}
	c.members = nil
	violations, _ := c.report.violations()
	for _, v := range violations {
		require.Contains(c.t, v.what, "no leader", c.report.around(v.from, v.to))
	}
}
