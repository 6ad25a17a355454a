package guard

import (
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestKeep checks that a file to keep is open until the command and its descendants have ended, and that the command
// does not have it.
func TestKeep(t *testing.T) {
	eachGuardedMode(t, func(t *testing.T, m Mode) {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		defer r.Close()
		ready, tell, err := os.Pipe()
		require.NoError(t, err)
		defer ready.Close()
		c := shell(m, "(echo kept >&4) 2>/dev/null; echo >&3; exec sleep 60")
		c.Files, c.Keep = []*os.File{tell}, []*os.File{w}
		p, err := Start(c, lasts(long))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		require.NoError(t, tell.Close())
		_, err = ready.Read(make([]byte, 1))
		require.NoError(t, err)

		closed := make(chan string, 1)
		go func() {
			var buffer [16]byte
			n, _ := r.Read(buffer[:])
			closed <- string(buffer[:n])
		}()
		select {
		case wrote := <-closed:
			require.Fail(t, "it is not kept", "%q", wrote)
		case <-time.After(50 * time.Millisecond):
		}
		p.Kill()
		p.Wait()
		require.Empty(t, <-closed)
	})
}

// TestKeepUnguarded checks that an unguarded command itself keeps the file, after its own, when this process is killed.
func TestKeepUnguarded(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	ready, tell, err := os.Pipe()
	require.NoError(t, err)
	defer ready.Close()
	c := shell(UnguardedMode(), "echo own >&3; echo kept >&4; exec sleep 60")
	c.Files, c.Keep = []*os.File{tell}, []*os.File{w}
	p, err := Start(c, lasts(long))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, tell.Close())
	text, err := io.ReadAll(io.LimitReader(ready, 4))
	require.NoError(t, err)
	require.Equal(t, "own\n", string(text))
	text, err = io.ReadAll(io.LimitReader(r, 5))
	require.NoError(t, err)
	require.Equal(t, "kept\n", string(text))
	p.Kill()
	p.Wait()
	_, err = r.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}
