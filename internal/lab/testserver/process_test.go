package testserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/whole"
	"github.com/stretchr/testify/require"
)

// orphanVariable makes the test binary start a server, print its address, and hang.
const orphanVariable = "TESTSERVER_START_AND_HANG"

func startAndHang() {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	var err error
	switch os.Getenv(orphanVariable) {
	case "etcd":
		var e *Etcd
		if e, err = StartEtcd(ctx, EtcdConfig{}); err == nil {
			fmt.Println(e.dir, e.Member(0).Addr())
		}
	case "paused PostgreSQL":
		err = hangPostgres(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	select {}
}

// hangPostgres leaves a server on a disk of its own, whose processes all stand still.
func hangPostgres(ctx context.Context) error {
	p, err := StartPostgres(ctx, PostgresConfig{DiskSize: 128 << 20})
	if err != nil {
		return err
	}
	m := p.Member(0)
	if err := m.Pause(); err != nil {
		return err
	}
	fmt.Print(p.dir)
	for _, c := range m.process.children() {
		fmt.Print(" ", c.pid)
	}
	fmt.Println()
	return nil
}

// A test binary that is killed runs no cleanup. Its servers end nevertheless.
func TestServerEndsWithKilledParent(t *testing.T) {
	t.Parallel()
	parent, _, addr := startParent(t, "etcd")
	connect := func() error {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	require.NoError(t, connect(), "the server must run while its parent does")
	killParent(t, parent)
	eventually(t, func() bool { return errors.Is(connect(), syscall.ECONNREFUSED) }, "the server must end with its parent")
}

// The processes of a server that is paused end too, and its disk is unmounted.
func TestPausedServerEndsWithKilledParent(t *testing.T) {
	t.Parallel()
	skipWithoutRoot(t)
	parent, dir, children := startParent(t, "paused PostgreSQL")
	require.NotEmpty(t, children)
	lock, err := os.ReadFile(filepath.Join(dir, "1", "data", "postmaster.pid"))
	require.NoError(t, err)
	killParent(t, parent)
	for _, pid := range strings.Fields(children) {
		eventually(t, func() bool {
			stat, err := os.ReadFile("/proc/" + pid + "/stat")
			return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) || err == nil && strings.Contains(string(stat), ") Z ")
		}, "process "+pid+" must end with the test")
	}
	eventually(t, func() bool {
		mounts, err := os.ReadFile("/proc/self/mounts")
		return err == nil && !strings.Contains(string(mounts), dir)
	}, "the disk must be unmounted")

	// All that is left is 56 bytes of memory, which the next server in the directory would remove.
	data := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(data, "postmaster.pid"), lock, 0o600))
	require.NoError(t, removeSharedMemory(data))
}

// startParent starts the test binary so that it starts a server, and returns what it prints: the server's directory, and
// more. The directory is removed when the test ends.
func startParent(t *testing.T, server string) (parent *exec.Cmd, dir, more string) {
	whole.Need(t)
	parent = exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), orphanVariable+"="+server)
	parent.Stderr = os.Stderr
	stdout, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, readErr := bufio.NewReader(stdout).ReadString('\n')
	if readErr != nil {
		_ = parent.Process.Kill()
		t.Fatalf("no address: %v, %v", readErr, parent.Wait())
	}
	dir, more, _ = strings.Cut(strings.TrimSpace(line), " ")
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return parent, dir, more
}

func killParent(t *testing.T, parent *exec.Cmd) {
	require.NoError(t, parent.Process.Kill())
	require.Error(t, parent.Wait())
}
