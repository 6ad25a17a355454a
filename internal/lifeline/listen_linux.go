package lifeline

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// Listen listens at a path, for the user of this process and for root, or for all users. It replaces a socket that a
// lifeline has left behind, and nothing else. A lock beside the socket, which is kept until this process ends, tells
// whether a lifeline runs.
func Listen(path string, all bool) (listener *net.UnixListener, err error) {
	lock, err := syscall.Open(path+".lock", syscall.O_CREAT|syscall.O_RDWR|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path + ".lock", Err: err}
	}
	defer func() {
		if err != nil {
			_ = syscall.Close(lock)
		}
	}()
	if err := syscall.Flock(lock, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, fmt.Errorf("another lifeline has locked %s.lock: %w", path, err)
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != os.ModeSocket:
		return nil, fmt.Errorf("%s exists, and is no socket", path)
	default:
		conn, err := net.Dial("unix", path)
		if err == nil {
			_ = conn.Close()
			return nil, fmt.Errorf("a program that is no lifeline listens at %s", path)
		}
		if !errors.Is(err, syscall.ECONNREFUSED) { // the program is busy, or speaks another protocol
			return nil, fmt.Errorf("a program that is no lifeline might listen at %s: %w", path, err)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	mask := 0o177
	if all {
		mask = 0o111
	}
	mask = syscall.Umask(mask) // not chmod: it would follow a link that another user has put there
	defer syscall.Umask(mask)
	return net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
}

// ListenAnywhere listens at an address that no other socket has. It has no file, and the kernel removes it.
func ListenAnywhere() (*net.UnixListener, string, error) {
	var name [8]byte
	_, _ = rand.Read(name[:])
	address := "@leadership-lifeline-" + hex.EncodeToString(name[:])
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: address, Net: "unix"})
	return listener, address, err
}
