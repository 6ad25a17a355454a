package file

import (
	"context"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// noRoom is a disk without room for the content of a file.
type noRoom struct{ ops }

func (n noRoom) write(path, content string) error {
	if err := n.ops.write(path, ""); err != nil || !strings.HasSuffix(path, "value") {
		return err
	}
	return &os.PathError{Op: "write", Path: path, Err: syscall.ENOSPC}
}

// TestFailedCastsLeaveNothing, neither in the directory nor in the session.
func TestFailedCastsLeaveNothing(t *testing.T) {
	d := driverWith(t, configIn(t.TempDir()+"/store"), noRoom{kernel{}})
	s := sessionOf(t, d).(*session)
	for turn := range uint64(5) {
		_, err := s.Enter(soon(t), "e", engine.Nonce{Name: unique(), Turn: turn + 1}, "v")
		require.ErrorIs(t, err, store.ErrUnavailable)
	}
	require.Empty(t, s.casts)
	d.life.Wait()
	require.Len(t, files(t, d.dirOf("e").ballots()), 1)
}

// TestFailedAcknowledgementsLeaveNothing: the link can't be set for some time.
func TestFailedAcknowledgementsLeaveNothing(t *testing.T) {
	var until atomic.Int64
	c := configIn(t.TempDir() + "/store")
	d := driverWith(t, c, failing{kernel{}, func(from string) bool { return strings.Contains(from, "/t/") && until.Load() > 0 }})
	s := &enterer{t: t, s: sessionOf(t, d)}
	e := s.enter()
	_, err := s.s.Acknowledge(soon(t), e, "first")
	require.NoError(t, err)
	d.life.Wait()
	before := files(t, string(d.dirOf("e")))
	until.Store(1)
	for range 5 {
		_, err := s.s.Acknowledge(soon(t), e, "second")
		require.ErrorIs(t, err, store.ErrUnavailable)
	}
	require.Equal(t, before, files(t, string(d.dirOf("e"))))
	until.Store(0)
	revision, err := s.s.Acknowledge(soon(t), e, "third")
	require.NoError(t, err)
	require.Greater(t, revision, uint64(1))
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
