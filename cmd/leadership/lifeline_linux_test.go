package main

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// run adds a lifeline of its own to the URL of a store that can have one, unless the URL names one.
func TestOwnLifeline(t *testing.T) {
	for url, want := range map[string]string{
		"etcd://h:1":                        "etcd://h:1?lifeline=self",
		"etcd+tls://h:1/p?ttl=9s":           "etcd+tls://h:1/p?ttl=9s&lifeline=self",
		"zookeeper://h:1/":                  "zookeeper://h:1/?lifeline=self",
		"consul://h:1/":                     "consul://h:1/?lifeline=self",
		"consul://h:1/?lifeline=/run/other": "consul://h:1/?lifeline=/run/other",
		"file:///dev/shm/x?ttl=2s":          "file:///dev/shm/x?ttl=2s",
		"not a URL":                         "not a URL",
	} {
		with, why := ownLifeline(url)
		require.NoError(t, why)
		require.Equal(t, want, with)
	}
}

// As process 1 of a container run has none, and says how to have one.
func TestNoLifelineOfProcess1(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestOwnLifelineOfProcess1$", "-test.v")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
	}
	cmd.Env = append(os.Environ(), "LEADERSHIP_TEST_PROCESS_1=1")
	output, err := cmd.CombinedOutput()
	if cmd.Process == nil {
		t.Skipf("no PID namespace: %v", err)
	}
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), "start it by leadership lifeline -- PROGRAM")
}

// TestOwnLifelineOfProcess1 is what that process runs.
func TestOwnLifelineOfProcess1(t *testing.T) {
	if os.Getenv("LEADERSHIP_TEST_PROCESS_1") == "" {
		t.Skip("TestNoLifelineOfProcess1 runs it in a PID namespace")
	}
	url, why := ownLifeline("etcd://h:1")
	require.Equal(t, "etcd://h:1", url)
	t.Log(why)
}
