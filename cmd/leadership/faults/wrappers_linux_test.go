package faults

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/lab/testserver/binary"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// wrapper is a program that runs a command while it leads.
type wrapper struct {
	name    string
	guarded bool // by a guardian
	env     []string
	command func(c *cell, name, url string, beating []string) []string
}

// run is leadership run, in the mode of the cell.
var run = wrapper{name: "leadership run", guarded: true, command: func(c *cell, name, url string, beating []string) []string {
	program := c.programs.leadership
	if name == "old" {
		program = c.old
	}
	argv := []string{program, "run", "--store=" + url, "--election=" + c.election(), "--value=" + name, "--log-level=debug"}
	switch c.mode {
	case unguarded:
		argv = append(argv, "--unguarded")
	case namespace:
		argv = append(argv, "--strict")
	}
	return append(append(argv, "--"), beating...)
}}

// naive is a wrapper as users write them: it stops the command's process group when leadership is lost.
var naive = wrapper{name: "a process group", env: []string{naiveVariable + "=1"}, command: func(c *cell, name, url string, beating []string) []string {
	return append([]string{c.programs.tests, url, c.election()}, beating...)
}}

// consulLock and etcdctlLock get the address of a server for their URL.
var (
	consulLock = wrapper{name: "consul lock", command: func(c *cell, _, url string, beating []string) []string {
		return append([]string{c.programs.consul, "lock", "-http-addr=" + url, "-shell=false", c.election()}, beating...)
	}}
	etcdctlLock = wrapper{name: "etcdctl lock", command: func(c *cell, _, url string, beating []string) []string {
		return append([]string{c.programs.etcdctl, "--endpoints=" + url, "lock", fmt.Sprintf("--ttl=%d", int(c.ttl.Seconds())), c.election(), "--"}, beating...)
	}}
)

// naiveVariable makes this program the naive wrapper.
const naiveVariable = "LEADERSHIP_FAULTS_NAIVE"

// lead is the naive wrapper. Its arguments are URL, election and command.
func lead(args []string) error {
	ctx := context.Background()
	st, err := store.Open(ctx, args[0], nil)
	if err != nil {
		return err
	}
	candidate, err := leadership.NewCandidate(st, args[1], "naive", nil)
	if err != nil {
		return err
	}
	term, err := candidate.Campaign(ctx)
	if err != nil {
		return err
	}
	if err := term.Acknowledge(ctx); err != nil {
		return err
	}
	command := exec.Command(args[2], args[3:]...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		return err
	}
	over := make(chan error, 1)
	go func() { over <- command.Wait() }()
	select {
	case <-term.Context().Done():
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGTERM)
	case err := <-over:
		return err
	}
	select {
	case <-over:
	case <-time.After(100 * time.Millisecond):
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		<-over
	}
	return context.Cause(term.Context())
}

// programs are the paths of the programs that trials run.
type programs struct{ dir, beat, leadership, tests, consul, etcdctl string }

// built are the programs of all tests, in a directory which TestMain removes.
var built programs

// build builds the programs, once, into a directory which all users may read.
func build(t *testing.T) programs {
	t.Helper()
	if built.dir != "" {
		return built
	}
	dir, err := os.MkdirTemp("", "faults-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	built = programs{dir: dir, beat: dir + "/beat", leadership: dir + "/leadership", tests: dir + "/tests"}
	goBuild(t, "-o", dir+"/", "./beat", "..")
	if *every {
		tests, err := os.Executable()
		require.NoError(t, err)
		text, err := os.ReadFile(tests)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(built.tests, text, 0o755))
	}
	return built
}

func goBuild(t *testing.T, args ...string) {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), "go", append([]string{"build"}, args...)...).CombinedOutput()
	require.NoError(t, err, "%s", output)
}

// find finds a program that make setup has built.
func find(t *testing.T, b binary.Binary, public string) string {
	t.Helper()
	path, err := b.Find()
	require.NoError(t, err)
	target := filepath.Join(public, b.Name)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(target, text, 0o755))
	return target
}

// publicDir makes a directory which all users may read. The end of the test removes it.
func publicDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "faults-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	return dir
}
