package testserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Member is one server of a service. It keeps its ports and data however
// often it is stopped and started. All its methods may be called at the same
// time.
type Member struct {
	server server // of which kind it is
	addr   string // for clients
	dir    string // configuration, data and log
	sole   bool   // the service has no other member

	stopSignal syscall.Signal // ends the server in order, if it is not SIGTERM
	finish     func() error   // ends it for good, if SIGKILL would leave something behind; may be called again
	discard    func() error   // precedes the removal of its data, if that is not all that it left

	restart func(ctx context.Context) error // launches it again, if something else has to be done first

	mu      sync.Mutex // guards what follows
	process *process   // the latest; nil before the first
	logFrom int64      // where the log of that process begins
	closed  bool
}

// stopTimeout is how long a server has to end by itself once it is told to.
const stopTimeout = time.Minute

var (
	errNotRunning = errors.New("testserver: member is not running")
	errClosed     = errors.New("testserver: service is closed")
)

// Addr returns the address for clients, host:port.
func (m *Member) Addr() string { return m.addr }

// Start starts the member again, with the ports and data it had, and waits
// until it serves. A member of a cluster serves only together with others,
// which may not have been started yet: there, Start waits until the member
// answers at all, and Ready of its service waits for more. If ctx ends first,
// the member goes on starting. Starting a member that runs is an error.
func (m *Member) Start(ctx context.Context) error {
	launch := m.launch
	if m.restart != nil {
		launch = func() error { return m.restart(ctx) }
	}
	if err := launch(); err != nil {
		return err
	}
	return poll(ctx, func(ctx context.Context) (missing string, err error) {
		if err := m.failure(); err != nil {
			return "", err
		}
		switch r, err := m.role(ctx); {
		case err != nil:
			return err.Error(), nil
		case m.sole && r == unready:
			return "it does not serve", nil
		}
		return "", nil
	})
}

// Stop ends the member in order, as its manual says, and returns when it has ended.
// A member that takes longer than a minute is killed, which is an error. A
// paused member is resumed first. Stopping a member that does not run does
// nothing.
func (m *Member) Stop() error {
	if p := m.current(); p != nil {
		return p.stop(cmp.Or(m.stopSignal, syscall.SIGTERM), stopTimeout)
	}
	return nil
}

// Kill ends the member and its child processes by SIGKILL, and returns when
// they have ended. Killing a member that does not run does nothing.
func (m *Member) Kill() error {
	if p := m.current(); p != nil {
		return p.kill()
	}
	return nil
}

// Pause stops the member and its child processes by SIGSTOP, and returns when all their threads have stopped. Its
// connections stay open, and the kernel accepts new ones for it.
func (m *Member) Pause() error {
	if p := m.current(); p != nil {
		return p.pause()
	}
	return errNotRunning
}

// Resume lets a paused member go on, by SIGCONT.
func (m *Member) Resume() error {
	if p := m.current(); p != nil {
		return p.resume()
	}
	return errNotRunning
}

// Running reports whether the member's process exists, paused or not.
func (m *Member) Running() bool { return m.current() != nil }

// current returns the process that runs, or nil.
func (m *Member) current() *process {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.runs() {
		return nil
	}
	return m.process
}

// runs reports whether there is a process. The caller holds mu.
func (m *Member) runs() bool { return m.process != nil && !m.process.ended() }

// active reports whether an answer can be expected of the member.
func (m *Member) active() bool {
	p := m.current()
	return p != nil && !p.paused.Load()
}

func (m *Member) launch() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return errClosed
	case m.runs():
		return fmt.Errorf("testserver: member at %s runs already", m.addr)
	}
	log, err := os.OpenFile(m.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	info, err := log.Stat()
	if err != nil {
		return err
	}
	cmd := m.server.command()
	cmd.Dir = m.dir
	cmd.Stdout, cmd.Stderr = log, log
	p, err := startProcess(cmd)
	if err != nil {
		return err
	}
	m.process, m.logFrom = p, info.Size()
	return nil
}

func (m *Member) close() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	if m.finish != nil {
		return errors.Join(m.finish(), m.Kill())
	}
	return m.Kill()
}

func (m *Member) file(name string) string { return filepath.Join(m.dir, name) }

func (m *Member) dataDir() string { return m.file("data") }

func (m *Member) logFile() string { return m.file("server.log") }
