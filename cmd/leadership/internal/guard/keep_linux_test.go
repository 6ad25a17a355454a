package guard

import (
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
