//go:build linux

// Command build builds servers that the tests run: those of its arguments, etcd
// and consul, each from the nested module of its name. It does nothing, quickly,
// for a server that has been built from the same modules by the same Go.
// scripts/setup runs it in the root of the repository.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/go-leadership/leadership/internal/lab/testserver/binary"
)

// modules holds the nested modules, seen from the root of the repository.
const modules = "internal/lab/testserver/build"

var servers = []binary.Binary{binary.Etcd, binary.Consul, binary.Etcdctl}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "setup: %v\n", err)
		os.Exit(1)
	}
}

// run provides the servers that are named.
func run(ctx context.Context, out io.Writer, names []string) error {
	var wanted []binary.Binary
	for _, name := range names {
		i := slices.IndexFunc(servers, func(b binary.Binary) bool { return b.Name == name })
		if i < 0 {
			return fmt.Errorf("there is no server %q to build", name)
		}
		wanted = append(wanted, servers[i])
	}
	for _, b := range wanted {
		if err := provide(ctx, out, b, filepath.Join(modules, b.Name)); err != nil {
			return fmt.Errorf("%s: %w", b, err)
		}
	}
	return nil
}

// provide builds the binary if there is none, or one of another origin. The
// stamp beside it tells from what it was built.
func provide(ctx context.Context, out io.Writer, b binary.Binary, module string) error {
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
	held, err := lock(ctx, out, path+".lock", b)
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
	// No stamp while the binary is replaced: the stamp would be that of another binary.
	if err := remove(stamp); err != nil {
		return err
	}
	if err := build(ctx, b, module, path, held); err != nil {
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

// build replaces the binary, which is never seen half written. A build that is
// interrupted leaves nothing.
func build(ctx context.Context, b binary.Binary, module, path string, held *os.File) error {
	// A build that was killed might have left both. go build would refuse to
	// overwrite a file that is no program.
	fresh, work := path+".new", path+".work"
	clean := func() error { return errors.Join(remove(fresh), os.RemoveAll(work)) }
	if err := clean(); err != nil {
		return err
	}
	if err := os.Mkdir(work, 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "-C", module, "build", "-ldflags=-s -w", "-o", fresh, b.Package)
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOTMPDIR="+work)
	cmd.ExtraFiles = []*os.File{held} // if this process is killed, the lock lasts as long as go build writes
	// The compilers and linkers that go build runs have the lock too, so an
	// interruption has to end each of them. A SIGINT would not: a shell might
	// lose the signal, and go build does not wait for what it has started.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if output, err := cmd.CombinedOutput(); err != nil {
		err = fmt.Errorf("go build: %w\n%s", err, output)
		if ctx.Err() != nil {
			err = errors.New("interrupted")
		}
		return errors.Join(err, clean())
	}
	return errors.Join(os.Rename(fresh, path), clean())
}

func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// lock waits until no other process provides the binary. The caller closes what
// it returns; the kernel does that for a process that ends.
func lock(ctx context.Context, out io.Writer, path string, b binary.Binary) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for told := false; ; {
		err := flock(file)
		if err == nil {
			return file, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(os.NewSyscallError("flock", err), file.Close())
		}
		if !told {
			fmt.Fprintf(out, "setup: waiting for another process that builds %s\n", b)
			told = true
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(errors.New("interrupted"), file.Close())
		case <-time.After(100 * time.Millisecond): // flock tells of no context
		}
	}
}

func flock(file *os.File) error {
	for {
		if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
