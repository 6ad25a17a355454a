package testserver

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

// guard is a shell that runs a script when this process ends, however it ends, or before that when it is released.
type guard struct {
	cmd   *exec.Cmd
	stdin io.Closer // the kernel closes it if this process ends
	out   bytes.Buffer
}

func startGuard(script string, args ...string) (*guard, error) {
	g := &guard{cmd: exec.Command("/bin/sh", append([]string{"-c", "read _; " + script, "sh"}, args...)...)}
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it outlives a Ctrl-C at the terminal
	g.cmd.Stdout, g.cmd.Stderr = &g.out, &g.out
	stdin, err := g.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	g.stdin = stdin
	return g, g.cmd.Start()
}

// release returns when the script has run.
func (g *guard) release() error {
	if err := g.stdin.Close(); err != nil {
		return err
	}
	if err := g.cmd.Wait(); err != nil {
		return fmt.Errorf("testserver: %s: %w\n%s", g.cmd, err, g.out.Bytes())
	}
	return nil
}
