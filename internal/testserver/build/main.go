//go:build linux

// Command build builds the etcd and Consul servers that the tests run, each
// from the nested module of its name. It does nothing, quickly, for a server
// that has been built from the same modules by the same Go. It is run in the
// root of the repository, by scripts/setup.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/go-leadership/leadership/internal/testserver/binary"
)

// modules holds the nested modules, seen from the root of the repository.
const modules = "internal/testserver/build"

func main() {
	for _, b := range []binary.Binary{binary.Etcd, binary.Consul} {
		if err := provide(os.Stdout, b, filepath.Join(modules, b.Name)); err != nil {
			fmt.Fprintf(os.Stderr, "setup: %s: %v\n", b, err)
			os.Exit(1)
		}
	}
}

// provide builds the binary if there is none, or one of another origin. The
// stamp beside it tells from what it was built.
func provide(out io.Writer, b binary.Binary, module string) error {
	want, err := origin(module)
	if err != nil {
		return err
	}
	path, err := b.Path()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	held, err := lock(out, path+".lock", b)
	if err != nil {
		return err
	}
	defer held.Close()
	stamp := path + ".origin"
	if _, err := b.Find(); err == nil {
		if have, err := os.ReadFile(stamp); err == nil && string(have) == want {
			return nil
		}
	}
	fmt.Fprintf(out, "setup: building %s, which takes minutes the first time\n", b)
	// No stamp while the binary is replaced: it would be another one's.
	if err := remove(stamp); err != nil {
		return err
	}
	if err := build(b, module, path, held); err != nil {
		return err
	}
	if err := os.WriteFile(stamp, []byte(want), 0o644); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "setup: %s is %s\n", b, path)
	return err
}

// origin identifies what a build would be made from.
func origin(module string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version())
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			return "", fmt.Errorf("%w: run this in the root of the repository", err)
		}
		h.Write(content)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// build replaces the binary, which is never seen half written.
func build(b binary.Binary, module, path string, held *os.File) error {
	// One left by a build that was interrupted may be no program, which go
	// build would refuse to overwrite.
	fresh := path + ".new"
	if err := remove(fresh); err != nil {
		return err
	}
	cmd := exec.Command("go", "-C", module, "build", "-ldflags=-s -w", "-o", fresh, b.Package)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	cmd.ExtraFiles = []*os.File{held} // should we be killed, the lock lasts as long as it writes
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, output)
	}
	return os.Rename(fresh, path)
}

func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// lock waits until nobody else provides the binary, and returns what is to be
// closed to let others do. The kernel does that for a process that ends.
func lock(out io.Writer, path string, b binary.Binary) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	err = flock(file, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		fmt.Fprintf(out, "setup: waiting for somebody else to build %s\n", b)
		err = flock(file, syscall.LOCK_EX)
	}
	if err != nil {
		return nil, errors.Join(os.NewSyscallError("flock", err), file.Close())
	}
	return file, nil
}

func flock(file *os.File, how int) error {
	for {
		if err := syscall.Flock(int(file.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
