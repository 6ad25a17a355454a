package lifeline

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A sidecar and a program in PID namespaces of their own, as in a pod, neither of which can see the other.
func TestSidecar(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("a PID namespace takes root: in a user namespace, the two would not be of one user")
	}
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if err := probe(attr); err != nil {
		t.Skipf("no PID namespace: %v", err)
	}
	dir := shortDir(t)
	line := startAs(t, "lifeline", attr, dir+"/socket")
	awaitSocket(t, dir+"/socket")
	p := startAs(t, "program", attr, dir+"/socket", lasting.String())
	require.Equal(t, "ready", p.line(t))
	p.does(t, "add 1")
	p.isKnown(t, "1")
	p.kill()
	require.Equal(t, "ended 1", line.line(t))
}
