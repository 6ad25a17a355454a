package file

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/whole"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// configIn returns the settings of a store in a directory, with a TTL that no test waits for.
func configIn(dir string) Config { return configWith(dir, time.Hour) }

// configWith is configIn with a TTL.
func configWith(dir string, ttl time.Duration) Config {
	return completed(Config{Directory: dir, TTL: ttl})
}

// completed returns settings with the defaults.
func completed(c Config) Config {
	if err := c.complete(); err != nil {
		panic(err)
	}
	return c
}

// soon returns a context that ends when a test has waited for too long.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// waits says that a test waits for several seconds: it runs beside others, and only with all tests.
func waits(t *testing.T) {
	t.Helper()
	whole.Need(t)
	t.Parallel()
}

// durably makes a store sync what it writes, also on a file system in memory.
func durably(string) (uint32, error) { return ext4, nil }

// openWith opens a store with the given system calls. The end of the test closes it.
func openWith(t *testing.T, c Config, calls ops) *Store {
	t.Helper()
	d, err := newDriverWith(c, calls, durably)
	require.NoError(t, err)
	st := newStore(d, c)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

// driverWith returns a driver, which the end of the test closes.
func driverWith(t *testing.T, c Config, calls ops) *driver {
	t.Helper()
	d, err := newDriverWith(c, calls, durably)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// sessionOf opens a session and does not renew it.
func sessionOf(t *testing.T, d *driver) engine.Session {
	t.Helper()
	s, _, err := d.Open(soon(t))
	require.NoError(t, err)
	return s
}

// lead casts a ballot that is first, and acknowledges.
func lead(t *testing.T, st *Store, value string) store.Ballot {
	t.Helper()
	b, err := st.Cast(soon(t), "e", value)
	require.NoError(t, err)
	require.NoError(t, b.Wait(soon(t)))
	_, err = b.Acknowledge(soon(t), value)
	require.NoError(t, err)
	return b
}

// leads waits until a store knows that this value leads; an empty value: that no one leads.
func leads(t *testing.T, st *Store, value string) {
	t.Helper()
	var prev *store.Known
	for {
		known, err := st.Observe(soon(t), "e", prev)
		require.NoError(t, err)
		if known.Leader.Value == value {
			return
		}
		prev = &known
	}
}

// files returns the paths of everything in a directory.
func files(t *testing.T, dir string) (list []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		list = append(list, path)
		return err
	}))
	return list
}

// shown waits until the link shows the leader of election e, so that nothing is under construction.
func shown(t *testing.T, dir string) {
	t.Helper()
	storetest.Eventually(t, func() bool {
		_, err := os.Stat(dir + "/e/e/_leader")
		list, err2 := os.ReadDir(dir + "/t")
		return err == nil && err2 == nil && len(list) == 0
	}, "nothing is under construction")
}

// enterer makes entries in a session.
type enterer struct {
	t    *testing.T
	s    engine.Session
	turn uint64
}

func (e *enterer) enter() engine.Entry {
	e.t.Helper()
	e.turn++
	entry, err := e.s.Enter(soon(e.t), "e", engine.Nonce{Name: unique(), Turn: e.turn}, "value")
	require.NoError(e.t, err)
	entry.Election = "e"
	return entry
}

func (e *enterer) remove(entry engine.Entry) {
	e.t.Helper()
	require.NoError(e.t, e.s.Remove(soon(e.t), engine.Removal{Entry: entry}))
}

// needRoot skips a test that has to run as root, with a reason.
func needRoot(t *testing.T) {
	t.Helper()
	if syscall.Geteuid() != 0 {
		t.Skip("NOT TESTED: this test has to be run as root, to act as other users and to mount")
	}
}

// as carries out the calls as another user of a group. It changes the credentials by which the kernel checks
// permissions, for the thread.
func as(calls ops, user, group int) ops {
	return around{calls, func(_, _ string, call func() error) error {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		set := func(number, id int) { _, _, _ = syscall.RawSyscall(uintptr(number), uintptr(id), 0, 0) }
		set(syscall.SYS_SETFSGID, group)
		set(syscall.SYS_SETFSUID, user)
		defer set(syscall.SYS_SETFSGID, 0)
		defer set(syscall.SYS_SETFSUID, 0)
		return call()
	}}
}

// dying makes the calls of a process that is killed after some of those that change something.
type dying struct {
	around
	mu    sync.Mutex
	left  int // guarded by mu, as are all below: how many calls are still carried out; negative: all
	made  int
	locks []int
}

func (k *dying) change(call func() error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.left == 0 {
		return syscall.EIO
	}
	k.left--
	k.made++
	return call()
}

func (k *dying) close(int) {} // die does

func (k *dying) lock(p string) (fd int, err error) {
	err = k.change(func() (err error) {
		if fd, err = k.ops.lock(p); err == nil {
			k.locks = append(k.locks, fd)
		}
		return err
	})
	return fd, err
}

// die does what the kernel does at the end of a process.
func (k *dying) die() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left = 0
	for _, fd := range k.locks {
		k.ops.close(fd)
	}
	k.locks = nil
}

func newDying(left int) *dying {
	k := &dying{left: left}
	changes := []string{"mkdir", "rmdir", "symlink", "rename", "unlink", "write", "fsync"}
	k.around = around{kernel{}, func(op, _ string, call func() error) error {
		if slices.Contains(changes, op) {
			return k.change(call)
		}
		return call()
	}}
	return k
}

// beforeCalls are ops that call a function before each call.
func beforeCalls(do func(op, path string)) ops {
	return around{kernel{}, func(op, path string, call func() error) error {
		do(op, path)
		return call()
	}}
}

// failing are ops of which some calls fail.
func failing(errno syscall.Errno, fails func(op, path string) bool) ops {
	return around{kernel{}, func(op, path string, call func() error) error {
		if fails(op, path) {
			return failed(op, path, errno)
		}
		return call()
	}}
}

// around are ops that make each call but close in a function, which is told its name and its path; of a rename both paths,
// with a space between them.
type around struct {
	ops
	call func(op, path string, call func() error) error
}

func (a around) mkdir(dir string) error {
	return a.call("mkdir", dir, func() error { return a.ops.mkdir(dir) })
}

func (a around) rmdir(dir string) error {
	return a.call("rmdir", dir, func() error { return a.ops.rmdir(dir) })
}

func (a around) symlink(target, path string) error {
	return a.call("symlink", path, func() error { return a.ops.symlink(target, path) })
}

func (a around) readlink(path string) (target string, err error) {
	err = a.call("readlink", path, func() (err error) { target, err = a.ops.readlink(path); return err })
	return target, err
}

func (a around) rename(from, to string) error {
	return a.call("rename", from+" "+to, func() error { return a.ops.rename(from, to) })
}

func (a around) unlink(path string) error {
	return a.call("unlink", path, func() error { return a.ops.unlink(path) })
}

func (a around) chmod(path string, mode uint32) error {
	return a.call("chmod", path, func() error { return a.ops.chmod(path, mode) })
}

func (a around) list(dir string) (names []string, err error) {
	err = a.call("readdir", dir, func() (err error) { names, err = a.ops.list(dir); return err })
	return names, err
}

func (a around) exists(path string) (there bool, err error) {
	err = a.call("lstat", path, func() (err error) { there, err = a.ops.exists(path); return err })
	return there, err
}

func (a around) write(path, content string) error {
	return a.call("write", path, func() error { return a.ops.write(path, content) })
}

func (a around) read(path string) (content string, err error) {
	err = a.call("read", path, func() (err error) { content, err = a.ops.read(path); return err })
	return content, err
}

func (a around) lock(path string) (fd int, err error) {
	err = a.call("flock", path, func() (err error) { fd, err = a.ops.lock(path); return err })
	return fd, err
}

func (a around) free(path string) (free bool, err error) {
	err = a.call("flock", path, func() (err error) { free, err = a.ops.free(path); return err })
	return free, err
}

func (a around) sync(path string) error {
	return a.call("fsync", path, func() error { return a.ops.sync(path) })
}
