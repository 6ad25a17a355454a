package file

import (
	"context"
	"path"
	"syscall"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// TestEnterWhileAnEndIsMadeDurable: a cast whose caller gives up returns, also while fsync hangs for another cast. No
// goroutine is left behind for each.
func TestEnterWhileAnEndIsMadeDurable(t *testing.T) {
	disk := newStuck()
	d, err := newDriverWith(configIn(t.TempDir()+"/store"), disk, durably)
	require.NoError(t, err)
	t.Cleanup(func() { disk.end(); require.NoError(t, d.Close()) })
	s := sessionOf(t, d)
	d.life.Wait() // nothing else makes a call
	disk.match.Store(&match{op: "fsync", path: "/f"})
	enter := func(ctx context.Context, n engine.Nonce) <-chan error {
		entered := make(chan error, 1)
		go func() { // entered says when it has returned
			_, err := s.Enter(ctx, "e", n, "value")
			entered <- err
		}()
		return entered
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := enter(ctx, engine.Nonce{Name: "a", Slot: 0, Turn: 1})
	<-disk.hangs
	made := disk.made.Load()
	second := enter(ctx, engine.Nonce{Name: "b", Slot: 1, Turn: 1})
	storetest.Eventually(t, func() bool { return disk.made.Load() > made }, "the second is under way")
	cancel()
	for _, entered := range []<-chan error{first, second} {
		require.ErrorIs(t, storetest.Receive(t, entered, "Enter returns with its context"), store.ErrUnknownOutcome)
	}

	d.numbers.preparing.limit = 0 // that long is a hang
	made = disk.made.Load()
	for slot := range 3 {
		require.ErrorContains(t, <-enter(ctx, engine.Nonce{Name: unique(), Slot: slot, Turn: 2}), "has not returned for")
	}
	require.Equal(t, made, disk.made.Load(), "no request waits behind it")
}

// TestDirectoryAboveCantBeSynced: an error of the disk counts there too, since the path to the store might be lost; one of
// permission, or of a file system that syncs no directories, does not.
func TestDirectoryAboveCantBeSynced(t *testing.T) {
	for errno, counts := range map[syscall.Errno]bool{syscall.EIO: true, syscall.EACCES: false, syscall.EINVAL: false} {
		c := configIn(t.TempDir() + "/store")
		above := path.Dir(c.Directory)
		disk := around{kernel{}, func(op, file string, call func() error) error {
			if op == "fsync" && file == above {
				return failed(op, file, errno)
			}
			return call()
		}}
		d, err := newDriverWith(c, disk, durably)
		require.NoError(t, err)
		s := sessionOf(t, d)
		_, err = s.Enter(soon(t), "e", engine.Nonce{Name: unique(), Turn: 1}, "value")
		require.Equal(t, counts, err != nil, "%v: %v", errno, err)
		require.NoError(t, s.End(soon(t), nil))
		require.NoError(t, d.Close())
	}
}
