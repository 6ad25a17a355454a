package lifeline

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// Numbers that package syscall lacks. They are the same on every architecture that Go runs on.
const (
	sysPidfdSendSignal = 424
	sysPidfdOpen       = 434
	sysCloseRange      = 436
	soPeerPidfd        = 77
	prSetDumpable      = 4
	closeRangeCloexec  = 4
	pollIn             = 0x01
	pollHup            = 0x10
)

// openPidfd returns a pidfd of this process: Linux 5.3.
func openPidfd() (*os.File, error) {
	fd, _, errno := syscall.Syscall(sysPidfdOpen, uintptr(os.Getpid()), 0, 0)
	if errno != 0 {
		return nil, fmt.Errorf("this kernel gives no pidfd: %w", errno)
	}
	return os.NewFile(fd, "pidfd"), nil
}

// checkPidfd returns an error if a descriptor is no pidfd, which the kernel says with EBADF. The signal 0 is none.
// EINVAL says that the process is in a PID namespace that this process can't see, as another container of a pod is.
func checkPidfd(fd int) error {
	switch _, _, errno := syscall.Syscall6(sysPidfdSendSignal, uintptr(fd), 0, 0, 0, 0, 0); errno {
	case 0, syscall.EPERM, syscall.ESRCH, syscall.EINVAL:
		return nil
	default:
		return fmt.Errorf("no pidfd: %w", errno)
	}
}

// awaitExit waits until all threads of a process have ended.
func awaitExit(pidfd *os.File) error { return await(pidfd, exited) }

// awaitHangup waits until no process has the writing end of a pipe. It reads nothing: a program can let reads block.
func awaitHangup(pipe *os.File) error {
	return await(pipe, func(fd int) bool { return happened(fd, pollHup) })
}

// await waits until something is true of a descriptor, or the file's deadline.
func await(f *os.File, holds func(fd int) bool) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Read(func(fd uintptr) bool { return holds(int(fd)) })
}

// exited reports whether the process of a pidfd has exited.
func exited(pidfd int) bool { return happened(pidfd, pollIn) }

// happened reports whether an event of a descriptor has happened.
func happened(fd int, event int16) bool {
	poll := struct {
		fd              int32
		events, revents int16
	}{int32(fd), event, 0}
	var now syscall.Timespec
	n, _, errno := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 1, uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	return errno == 0 && n == 1 && poll.revents&event != 0
}

// Harden keeps the credentials in this process out of core dumps, and other processes from reading its memory.
func Harden() { _, _, _ = syscall.Syscall6(syscall.SYS_PRCTL, prSetDumpable, 0, 0, 0, 0, 0) }

// Rest keeps the runtime from looking every second whether the number of processors has changed.
func Rest() { runtime.GOMAXPROCS(runtime.GOMAXPROCS(0)) }

// peer returns the user and the process at the other end.
func peer(conn *net.UnixConn) (user *syscall.Ucred, err error) {
	return user, control(conn, func(fd int) (err error) {
		user, err = syscall.GetsockoptUcred(fd, syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		return err
	})
}

// peerPidfd returns a pidfd of the process that has made the connection: Linux 6.5.
func peerPidfd(conn *net.UnixConn) (file *os.File, err error) {
	return file, control(conn, func(fd int) error {
		pidfd, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, soPeerPidfd)
		if err == nil {
			file, err = newFile(pidfd, "pidfd")
		}
		return err
	})
}

// closeRangeOnExec marks all descriptors from the first on: the next program that this process executes does not get
// them.
func closeRangeOnExec(first uint) error {
	if _, _, errno := syscall.Syscall(sysCloseRange, uintptr(first), math.MaxUint32, closeRangeCloexec); errno != 0 {
		return errno
	}
	return nil
}

// identity tells a file from all others that there are at the time.
type identity struct{ device, inode uint64 }

func identify(f *os.File) (id identity, err error) {
	return id, control(f, func(fd int) error {
		var status syscall.Stat_t
		err := syscall.Fstat(fd, &status)
		id = identity{uint64(status.Dev), status.Ino}
		return err
	})
}

func control(conn syscall.Conn, call func(fd int) error) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = call(int(fd)) }); err != nil {
		return err
	}
	return failed
}

// sendFiles sends a byte, and with it a pidfd and the reading end of a pipe.
func sendFiles(conn *net.UnixConn, pidfd, pipe *os.File) error {
	return control(pidfd, func(pidfd int) error {
		return control(pipe, func(pipe int) error {
			_, _, err := conn.WriteMsgUnix([]byte{1}, syscall.UnixRights(pidfd, pipe), nil)
			return err
		})
	})
}

// receiveFiles receives what sendFiles has sent.
func receiveFiles(conn *net.UnixConn) (pidfd, pipe *os.File, err error) {
	oob := make([]byte, syscall.CmsgSpace(16*4))
	_, n, _, _, err := conn.ReadMsgUnix(make([]byte, 1), oob)
	if err != nil {
		return nil, nil, err
	}
	var fds []int
	messages, err := syscall.ParseSocketControlMessage(oob[:n])
	for _, message := range messages {
		if got, err := syscall.ParseUnixRights(&message); err == nil {
			fds = append(fds, got...)
		}
	}
	if err != nil || len(fds) != 2 {
		for _, fd := range fds {
			_ = syscall.Close(fd)
		}
		return nil, nil, errors.Join(fmt.Errorf("%d descriptors instead of 2", len(fds)), err)
	}
	pidfd, err1 := newFile(fds[0], "pidfd")
	pipe, err2 := newFile(fds[1], "pipe")
	if err := errors.Join(err1, err2); err != nil {
		_, _ = pidfd.Close(), pipe.Close()
		return nil, nil, err
	}
	return pidfd, pipe, nil
}

// newFile returns a file that waits without a thread.
func newFile(fd int, name string) (*os.File, error) {
	syscall.CloseOnExec(fd)
	if err := syscall.SetNonblock(fd, true); err != nil {
		_ = syscall.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// duplicate returns a copy of a descriptor.
func duplicate(f *os.File, name string) (file *os.File, err error) {
	return file, control(f, func(fd int) error {
		copied, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, 0)
		if errno != 0 {
			return errno
		}
		file = os.NewFile(copied, name)
		return nil
	})
}
