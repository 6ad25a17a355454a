//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-leadership/leadership/internal/lab/testserver/binary"
)

// The version that the tests look for is the one that is built.
func TestVersions(t *testing.T) {
	for _, b := range servers {
		module, err := os.ReadFile(filepath.Join(b.Name, "go.mod"))
		require.NoError(t, err)
		require.Contains(t, string(module), "\ntool "+b.Package+"\n")
		require.Contains(t, string(module), "\t"+b.Package+" "+b.Version+" ")
	}
}

// hello is a program in its own module, with its own cache directory.
func hello(t *testing.T) (b binary.Binary, module string) {
	goCache, err := exec.Command("go", "env", "GOCACHE").Output()
	require.NoError(t, err)
	t.Setenv("GOCACHE", strings.TrimSpace(string(goCache)))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	module = t.TempDir()
	write(t, module, "main.go", "package main\n\nfunc main() {}\n")
	write(t, module, "go.mod", "module hello\n\ngo 1.26\n")
	return binary.Binary{Name: "hello", Version: "v1.0.0", Package: "."}, module
}

func write(t *testing.T, dir, name, content string) {
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o755))
}

func TestProvide(t *testing.T) {
	b, module := hello(t)
	require.ErrorContains(t, provide(t.Context(), io.Discard, b, module), "go.sum: no such file or directory: run this in the root")
	write(t, module, "go.sum", "")
	_, err := b.Find()
	require.EqualError(t, err, "hello v1.0.0 is not built: run `make setup STORE=hello`")

	builds := func() int {
		var said bytes.Buffer
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				var out bytes.Buffer
				err := provide(t.Context(), &out, b, module)
				mu.Lock()
				defer mu.Unlock()
				said.Write(out.Bytes())
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		path, err := b.Find()
		require.NoError(t, err)
		require.NoError(t, exec.Command(path).Run())
		built := strings.Count(said.String(), "building hello v1.0.0")
		require.Equal(t, built, strings.Count(said.String(), "setup: hello v1.0.0 is "+path+"\n"))
		return built
	}
	require.Equal(t, 1, builds(), "later callers must wait for the first and use what it built")
	require.Equal(t, 0, builds(), "there is nothing to do")
	write(t, module, "go.sum", "\n")
	require.Equal(t, 1, builds(), "what it was built from has changed")

	// A build that fails leaves the old program. The next build replaces it.
	write(t, module, "go.mod", "module hello\n\ngo 1.26\n\n")
	write(t, module, "main.go", "package main\n")
	require.ErrorContains(t, provide(t.Context(), io.Discard, b, module), "function main is undeclared")
	_, err = b.Find()
	require.NoError(t, err)
	write(t, module, "main.go", "package main\n\nfunc main() {}\n")
	require.Equal(t, 1, builds())
}

// A build that is interrupted while it writes the program, or while it waits for another, leaves nothing but the lock.
func TestProvideInterrupted(t *testing.T) {
	b, module := hello(t)
	write(t, module, "go.sum", "")
	tools := t.TempDir()
	linking := filepath.Join(tools, "linking")
	// The linker stops once it has begun to write, and ignores SIGINT.
	write(t, tools, "tool", `#!/bin/sh
case $1$2 in
*/link-V=full) ;;
*/link*) while [ "$1" != -o ]; do shift; done; echo half >"$2"; echo half >"$FRESH"; trap '' INT; : >"$LINKING"; sleep 600 ;;
esac
exec "$@"
`)
	path, err := b.Path()
	require.NoError(t, err)
	t.Setenv("GOFLAGS", "-toolexec="+filepath.Join(tools, "tool"))
	t.Setenv("FRESH", path+".new")
	t.Setenv("LINKING", linking)

	ctx, interrupt := context.WithCancel(t.Context())
	building, waiting := make(chan error), make(chan error)
	go func() { building <- provide(ctx, io.Discard, b, module) }()
	require.Eventually(t, func() bool { _, err := os.Stat(linking); return err == nil }, 2*time.Minute, 10*time.Millisecond)
	_, err = os.Stat(path + ".new")
	require.NoError(t, err)
	out, told := io.Pipe()
	go func() { waiting <- provide(ctx, told, b, module) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "setup: waiting for another process that builds hello v1.0.0\n", line)
	interrupt()
	require.EqualError(t, <-building, "interrupted")
	require.EqualError(t, <-waiting, "interrupted")
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Equal(t, "hello-v1.0.0.lock", left[0].Name())

	// The next build does not wait for the processes of the interrupted one.
	t.Setenv("GOFLAGS", "")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	require.NoError(t, provide(ctx, io.Discard, b, module))
	require.NoError(t, exec.Command(path).Run())
}

// One server is built without the others.
func TestOneServerAlone(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Chdir("../../../..")
	for _, b := range servers { // as if they had been built
		path, err := b.Path()
		require.NoError(t, err)
		want, err := origin(filepath.Join(modules, b.Name))
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		write(t, filepath.Dir(path), filepath.Base(path), "")
		write(t, filepath.Dir(path), filepath.Base(path)+".origin", want)
	}
	dir := filepath.Join(cache, "go-leadership", "testserver")
	locks := func() []string {
		found, err := filepath.Glob(filepath.Join(dir, "*.lock"))
		require.NoError(t, err)
		return found
	}
	require.EqualError(t, run(t.Context(), io.Discard, []string{"etcd", "paper"}), `there is no server "paper" to build`)
	require.NoError(t, run(t.Context(), io.Discard, nil))
	require.Empty(t, locks())
	require.NoError(t, run(t.Context(), io.Discard, []string{"consul"}))
	require.Equal(t, []string{filepath.Join(dir, binary.Consul.Name+"-"+binary.Consul.Version+".lock")}, locks())
	require.NoError(t, run(t.Context(), io.Discard, []string{"etcd"}))
	require.Len(t, locks(), 2)
}
