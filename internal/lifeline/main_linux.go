package lifeline

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
)

const (
	// ParentVariable is set by a lifeline for the program that it starts: the address of its socket.
	ParentVariable = "LEADERSHIP_LIFELINE"
	// childVariable is set for a lifeline that a program starts: descriptor 3 is its socket, and 4 a pidfd of the
	// program.
	childVariable = "LEADERSHIP_LIFELINE_OF"
)

// mainCalled says that this program becomes a lifeline when it is executed again.
var mainCalled bool

// Main does not return in a process that a program has started as its lifeline.
func Main() {
	if os.Getenv(childVariable) == "" {
		mainCalled = true
		return
	}
	closeInherited()
	_ = os.Unsetenv(childVariable)
	if err := serveParent(); err != nil { // a program that has started a lifeline sees no output of it
		fmt.Fprintf(os.Stderr, "%s is set, so this process is the lifeline of another one, but: %v. To run the program itself, unset %s.\n",
			childVariable, err, childVariable)
		os.Exit(1)
	}
	os.Exit(0)
}

// closeInherited closes what the program has inherited and passes on, such as a shell's pipe or lock, which would
// outlive the program: this process executes itself once more. A kernel before 5.11 can't.
func closeInherited() {
	if os.Getenv(childVariable) != "1" {
		return
	}
	_ = os.Setenv(childVariable, "2")
	if closeRangeOnExec(5) == nil {
		_ = syscall.Exec("/proc/self/exe", os.Args, os.Environ())
	}
}

// serveParent serves the program that has started this process, and ends when the program and its sessions have.
func serveParent() error {
	Harden()
	Rest()
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGTSTP)
	socket := os.NewFile(3, "socket")
	parent, err := newFile(4, "pidfd")
	if err != nil {
		return err
	}
	listener, err := net.FileListener(socket)
	if err != nil {
		return err
	}
	_ = socket.Close()
	unixListener, ok := listener.(*net.UnixListener)
	if !ok {
		return errors.New("not a Unix socket")
	}
	s := NewServer(unixListener, func(uint32) bool { return false }, slog.New(slog.DiscardHandler))
	go s.Serve()
	if err := awaitExit(parent); err != nil {
		return err
	}
	s.Drain()
	return nil
}

// own is the lifeline that this process has started.
var own struct {
	mu      sync.Mutex
	address string
	pid     int
	ended   chan struct{} // closed when it has ended
}

// addressOf returns the address of the lifeline's socket. A lifeline of this process's own is started if there is none.
func addressOf(place string) (string, error) {
	if place != Self {
		return place, nil
	}
	if parent := os.Getenv(ParentVariable); parent != "" {
		return parent, nil
	}
	own.mu.Lock()
	defer own.mu.Unlock()
	select {
	case <-own.ended:
	default:
		if own.ended != nil {
			return own.address, nil
		}
	}
	var err error
	own.address, own.pid, own.ended, err = startOwn()
	return own.address, err
}

// startOwn executes this program again, as a lifeline.
func startOwn() (address string, pid int, ended chan struct{}, err error) {
	listener, address, err := ListenAnywhere()
	if err != nil {
		return "", 0, nil, err
	}
	defer listener.Close()
	socket, err := listener.File()
	if err != nil {
		return "", 0, nil, err
	}
	defer socket.Close()
	parent, err := openPidfd()
	if err != nil {
		return "", 0, nil, err
	}
	defer parent.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{os.Args[0]}
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), childVariable+"=1")
	cmd.ExtraFiles = []*os.File{socket, parent}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return "", 0, nil, fmt.Errorf("start a lifeline: %w", err)
	}
	ended = make(chan struct{})
	go func() { // ends with the lifeline, which ends after this process
		defer close(ended)
		_ = cmd.Wait()
	}()
	return address, cmd.Process.Pid, ended, nil
}
