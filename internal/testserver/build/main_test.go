//go:build linux

package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-leadership/leadership/internal/testserver/binary"
)

// The version that the tests look for is the one that is built.
func TestVersions(t *testing.T) {
	for _, b := range []binary.Binary{binary.Etcd, binary.Consul} {
		module, err := os.ReadFile(filepath.Join(b.Name, "go.mod"))
		require.NoError(t, err)
		require.Contains(t, string(module), "\ntool "+b.Package+"\n")
		require.Contains(t, string(module), "\t"+b.Package+" "+b.Version+" ")
	}
}

func TestProvide(t *testing.T) {
	goCache, err := exec.Command("go", "env", "GOCACHE").Output()
	require.NoError(t, err)
	t.Setenv("GOCACHE", strings.TrimSpace(string(goCache)))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	b := binary.Binary{Name: "hello", Version: "v1.0.0", Package: "."}
	module := t.TempDir()
	write := func(name, content string) {
		require.NoError(t, os.WriteFile(filepath.Join(module, name), []byte(content), 0o644))
	}
	write("main.go", "package main\n\nfunc main() {}\n")
	write("go.mod", "module hello\n\ngo 1.26\n")

	require.ErrorContains(t, provide(io.Discard, b, module), "go.sum: no such file or directory: run this in the root")
	write("go.sum", "")
	_, err = b.Find()
	require.EqualError(t, err, "hello v1.0.0 is not built: run `make setup`")

	builds := func() int {
		var said bytes.Buffer
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				var out bytes.Buffer
				err := provide(&out, b, module)
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
	require.Equal(t, 1, builds(), "whoever comes later must wait for the first and use what it built")
	require.Equal(t, 0, builds(), "there is nothing to do")
	write("go.sum", "\n")
	require.Equal(t, 1, builds(), "what it was built from has changed")

	// A build that fails leaves what there was, but not for good.
	write("go.mod", "module hello\n\ngo 1.26\n\n")
	write("main.go", "package main\n")
	require.ErrorContains(t, provide(io.Discard, b, module), "function main is undeclared")
	_, err = b.Find()
	require.NoError(t, err)
	write("main.go", "package main\n\nfunc main() {}\n")
	require.Equal(t, 1, builds())
}
