package testserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// orphanVariable makes the test binary start a server, print its address, and hang.
const orphanVariable = "TESTSERVER_START_AND_HANG"

func startAndHang() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	z, err := StartZooKeeper(ctx, ZooKeeperConfig{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(z.dir, z.Member(0).Addr())
	select {}
}

// A test binary that is killed runs no cleanup. Its servers end nevertheless.
func TestServerEndsWithKilledParent(t *testing.T) {
	t.Parallel()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), orphanVariable+"=1")
	parent.Stderr = os.Stderr
	stdout, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, readErr := bufio.NewReader(stdout).ReadString('\n')
	if readErr != nil {
		_ = parent.Process.Kill()
		t.Fatalf("no address: %v, %v", readErr, parent.Wait())
	}
	dir, addr, _ := strings.Cut(strings.TrimSpace(line), " ")
	defer os.RemoveAll(dir)

	_, err = ask(t.Context(), addr, "ruok")
	require.NoError(t, err, "the server must run while its parent does")

	require.NoError(t, parent.Process.Kill())
	require.Error(t, parent.Wait())
	require.Eventually(t, func() bool {
		_, err := ask(t.Context(), addr, "ruok")
		return errors.Is(err, syscall.ECONNREFUSED)
	}, 30*time.Second, pollInterval, "the server must end with its parent")
}
