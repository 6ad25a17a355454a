package guard

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestTerminal checks that the command reads the terminal and gets its Ctrl-C, that a Ctrl-Z does not stop it, and that
// the supervisor has the terminal again when the command has ended.
func TestTerminal(t *testing.T) {
	eachGuardedMode(t, func(t *testing.T, m Mode) {
		keyboard, screen := newTerminal(t)
		r, w, err := os.Pipe()
		require.NoError(t, err)
		defer r.Close()
		data, err := json.Marshal(m)
		require.NoError(t, err)
		cmd := variant{uid: os.Getuid()}.command(t, "terminal", "LEADERSHIP_TEST_MODE="+string(data))
		cmd.Stdin, cmd.Stdout, cmd.Stderr = screen, screen, os.Stderr
		cmd.ExtraFiles = []*os.File{w}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
		require.NoError(t, cmd.Start())
		require.NoError(t, w.Close())
		require.NoError(t, screen.Close())
		said := bufio.NewReader(r)
		require.Equal(t, "ready", readLine(t, said))
		for _, typed := range []struct{ keys, want string }{
			{"a\n", "got a"}, {"\x03", "interrupted"}, {"\x1ab\n", "got b"}, {"end\n", "got end"},
		} {
			_, err := keyboard.WriteString(typed.keys)
			require.NoError(t, err)
			require.Equal(t, typed.want, readLine(t, said))
		}
		require.Equal(t, "8, own terminal: true", readLine(t, said))
		require.NoError(t, cmd.Wait())
	})
}

func newTerminal(t *testing.T) (keyboard, screen *os.File) {
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this machine has no pseudo-terminals: %v", err)
	}
	t.Cleanup(func() { _ = keyboard.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	return keyboard, screen
}

func init() { parts["terminal"] = playTerminal }

func playTerminal() {
	var m Mode
	must(json.Unmarshal([]byte(os.Getenv("LEADERSHIP_TEST_MODE")), &m))
	c := shell(m, `
		trap 'echo interrupted >&3' INT; echo ready >&3
		while :; do read x && { echo "got $x" >&3; [ "$x" = end ] && exit 8; }; done`)
	c.Files = []*os.File{os.NewFile(3, "")}
	p, err := Start(c, lasts(long))
	must(err)
	result := p.Wait()
	fmt.Fprintf(c.Files[0], "%d, own terminal: %v\n", result.Code, OwnsTerminal())
}
