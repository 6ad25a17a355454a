// Package scripts tests the scripts in its directory.
package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// If setup can't install what is missing, it says what that is, and how to get it.
func TestSetupAdvises(t *testing.T) {
	const missing = "setup: missing:\n  a C compiler and the C library's headers, for the race detector\n"
	for name, c := range map[string]struct {
		tools map[string]string // besides those that any machine has: what they print
		args  []string
		want  string
	}{
		"Debian without root": {
			map[string]string{"id": "1000", "apt-get": ""}, []string{"compiler"},
			missing + "install it as root: apt-get install gcc libc6-dev\n",
		},
		"Fedora": {
			map[string]string{"id": "0", "dnf": ""}, []string{"compiler"},
			missing + "install the compiler as root: dnf install gcc glibc-devel\n",
		},
		"macOS": {
			map[string]string{"id": "501", "xcode-select": ""}, []string{"compiler"},
			missing + "install the compiler as root: xcode-select --install\n",
		},
		"no package manager": {map[string]string{"id": "0"}, []string{"compiler"}, missing + "install the compiler with this system's packages\n"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, failingSetup(t, c.tools, c.args...))
		})
	}

	text := failingSetup(t, map[string]string{"id": "0", "pacman": "", "uname": "Linux"}, "compiler", "prometheus", "zookeeper")
	require.Contains(t, text, missing)
	require.Contains(t, text, "\n  prometheus and promtool in the PATH, for the tests of the metrics\n")
	require.Contains(t, text, "\n  java in the PATH\n")
	require.Contains(t, text, "install the compiler as root: pacman -S gcc\ninstall Prometheus from https://prometheus.io/download\nfor ZooKeeper use a Debian container, or the servers of compose.yaml")

	text = failingSetup(t, map[string]string{"uname": "Darwin"}, "etcd")
	require.Contains(t, text, "setup: the tests start servers on Linux only: use a Debian container, or the servers of compose.yaml")
	require.Equal(t, "setup: there is no \"paper\" to install; there are compiler, tmux, haproxy, prometheus, systemd, postgresql, pgbouncer, mariadb, chromium, zookeeper, etcd, consul, etcdctl\n", failingSetup(t, nil, "paper"))
}

// If nothing is missing, setup needs neither root nor a package manager.
func TestSetupHasNothingToDo(t *testing.T) {
	cmd := setup(t, map[string]string{"id": "1000", "cc": ""}, "compiler")
	cmd.Env = append(cmd.Env, "CC=cc")
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Empty(t, output)
}

// failingSetup returns what setup prints before it fails, on a machine with those tools and no C compiler.
func failingSetup(t *testing.T, tools map[string]string, args ...string) string {
	t.Helper()
	output, err := setup(t, tools, args...).CombinedOutput()
	require.Error(t, err)
	return string(output)
}

// setup returns a run of the script on a machine that has these tools, the shell's, and Go.
func setup(t *testing.T, tools map[string]string, args ...string) *exec.Cmd {
	bin := t.TempDir()
	for _, name := range []string{"go", "dirname"} {
		path, err := exec.LookPath(name)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(path, filepath.Join(bin, name)))
	}
	for name, prints := range tools {
		script := "#!/bin/sh\necho " + prints + "\n"
		if prints == "" {
			script = "#!/bin/sh\n"
		}
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700))
	}
	cmd := exec.Command("/bin/sh", append([]string{"./setup"}, args...)...)
	cmd.Env = append(os.Environ(), "PATH="+bin, "CC=no-such-compiler")
	return cmd
}
