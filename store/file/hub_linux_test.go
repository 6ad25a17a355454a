package file

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// TestOverflow: the kernel has dropped events, one of which was of a leader. The store reads everything again.
func TestOverflow(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	require.NoError(t, err)
	most, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	c := configIn(t.TempDir() + "/store")
	st, follower := openWith(t, c, kernel{}), openWith(t, c, kernel{})
	b := lead(t, st, "one")
	leads(t, follower, "one")

	noise := t.TempDir()
	s, err := one.add(noise, syscall.IN_CREATE|syscall.IN_DELETE, "", func(uint32) {})
	require.NoError(t, err)
	defer one.remove(s)
	one.reading.Lock() // nothing reads the queue
	for i := 0; i <= most; i += 2 {
		path := fmt.Sprint(noise, "/", i%7)
		require.NoError(t, kernel{}.mkdir(path))
		require.NoError(t, kernel{}.rmdir(path))
	}
	_, err = b.Acknowledge(soon(t), "two")
	require.NoError(t, err)
	one.reading.Unlock()
	leads(t, follower, "two")
}

// TestEventsGoOnBesideChanges: events are told while watches are being changed. Otherwise, on a busy machine, each event
// waits in a queue of the changes of all stores of the process, and the requests of all stores wait for the events.
func TestEventsGoOnBesideChanges(t *testing.T) {
	driverWith(t, configIn(t.TempDir()+"/store"), kernel{})
	dir, told := t.TempDir(), make(chan uint32, 1)
	s, err := one.add(dir, syscall.IN_CREATE, "", func(mask uint32) { told <- mask })
	require.NoError(t, err)
	one.changing.Lock() // as while a watch is added
	require.NoError(t, kernel{}.mkdir(dir+"/new"))
	select {
	case <-told:
	case <-time.After(time.Minute):
		t.Error("the event waits")
	}
	one.changing.Unlock()
	one.remove(s)
}

// TestRequestsShareARead: requests that wait for the events read them once, and not one after the other.
func TestRequestsShareARead(t *testing.T) {
	driverWith(t, configIn(t.TempDir()+"/store"), kernel{})
	h := one
	h.reading.Lock()
	before := h.reads.Load()
	var drains sync.WaitGroup
	for range 100 {
		drains.Go(h.drain)
	}
	stacks := make([]byte, 4<<20)
	waiting := func() bool {
		return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte("[sync.Mutex.Lock")) >= 100
	}
	storetest.Eventually(t, waiting, "all wait")
	h.reading.Unlock()
	drains.Wait()
	require.LessOrEqual(t, h.reads.Load()-before, uint64(2))
}

// TestDiskHangs: the disk of one store hangs while a directory is looked up. Its calls return with their contexts, and
// another store of the process goes on.
func TestDiskHangs(t *testing.T) {
	c := configIn(t.TempDir() + "/store")
	d := driverWith(t, c, kernel{})
	entry := (&enterer{t: t, s: sessionOf(t, d)}).enter()
	hung, goesOn := make(chan string, 10), make(chan struct{})
	one.find = func(dir string) (int, error) { // until the stores of this test are closed
		if strings.HasPrefix(dir, c.Directory) {
			hung <- dir
			<-goesOn
		}
		return lookup(dir)
	}
	defer close(goesOn)
	for _, call := range []func(ctx context.Context) (engine.Watch, error){
		func(ctx context.Context) (engine.Watch, error) { return d.WatchLeader(ctx, "e", func(engine.News) {}) },
		func(ctx context.Context) (engine.Watch, error) {
			return d.WatchEntry(ctx, entry.Key, func(engine.News) {})
		},
		func(ctx context.Context) (engine.Watch, error) { // the session's directory alone hangs
			w := d.newWatch(func(engine.News) {})
			return d.watching(ctx, w, func() (engine.State, error) {
				_, err := w.session(d.dirOf("e"), splitName(entry.Key))
				return engine.State{}, err
			})
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := call(ctx)
			failed <- err
		}()
		<-hung
		cancel()
		select {
		case err := <-failed:
			require.ErrorIs(t, err, store.ErrUnknownOutcome)
		case <-soon(t).Done():
			require.Fail(t, "the call does not return")
		}
		other := openWith(t, configIn(t.TempDir()+"/store"), kernel{})
		lead(t, other, "value")
		leads(t, other, "value")
	}
}

func splitName(key string) string {
	_, _, name := splitKey(key)
	return name
}

var openRole = role("open", func(dir string) error {
	st, err := Open(Config{Directory: dir})
	if err != nil {
		return err
	}
	return st.Close()
})

// instancesRole uses up all inotify instances of its user but one. The stores of a process share that one. A process
// that finds none left names the setting to raise, and works once there is one.
var instancesRole = role("instances", func(dir string) error {
	var taken []int
	for {
		fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC)
		if err == syscall.EMFILE && len(taken) > 0 {
			break
		}
		if err != nil {
			return err
		}
		taken = append(taken, fd)
	}
	_ = syscall.Close(taken[0])
	for range 3 {
		st, err := Open(Config{Directory: dir})
		if err != nil {
			return fmt.Errorf("the stores of a process need more than one instance: %w", err)
		}
		defer st.Close()
	}
	other := func() (string, error) {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = []string{roleVariable + "=" + openRole + ":" + fmt.Sprintf("%q", dir)}
		stdin, err := cmd.StdinPipe() // otherwise it would end at once
		if err != nil {
			return "", err
		}
		defer stdin.Close()
		text, err := cmd.CombinedOutput()
		return string(text), err
	}
	text, err := other()
	if err == nil || !strings.Contains(text, "fs.inotify.max_user_instances") || !strings.Contains(text, store.ErrUnavailable.Error()) {
		return fmt.Errorf("without an instance: %w: %s", err, text)
	}
	_ = syscall.Close(taken[1])
	if text, err = other(); err != nil {
		return fmt.Errorf("with an instance: %w: %s", err, text)
	}
	return nil
})

// TestMoreProcessesThanInotifyInstances runs as a user of its own, since instances are counted for each user.
func TestMoreProcessesThanInotifyInstances(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := reachable(t, t.TempDir())
	require.NoError(t, os.Chmod(dir, 0o777))
	user := uint32(100_000 + rand.N(1_000_000))
	p := start(t, instancesRole, dir+"/store", func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	})
	p.ended(t, soon(t))
}
