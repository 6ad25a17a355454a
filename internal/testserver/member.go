package testserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Member is one server of a service. It keeps its ports and data however
// often it is stopped and started. All its methods may be called at the same
// time.
type Member struct {
	id   int    // in the ensemble, from 1
	java string // the program
	addr string // for clients
	dir  string // configuration, data and log
	sole bool   // the service has no other member

	mu      sync.Mutex // guards what follows
	process *process   // the latest; nil before the first
	logFrom int64      // where the log of that process begins
	closed  bool
}

// stopTimeout is how long a server has to end by itself once it is told to.
const stopTimeout = 10 * time.Second

var errNotRunning = errors.New("testserver: member is not running")

// Addr returns the address for clients, host:port.
func (m *Member) Addr() string { return m.addr }

// Start starts the member again, with the ports and data it had, and waits
// until it serves. A member of an ensemble serves only together with others,
// which may not have been started yet: for one of those, Start waits until it
// answers on its port; see [ZooKeeper.Ready]. If ctx ends first, the member
// goes on starting. It is an error to start one that runs.
func (m *Member) Start(ctx context.Context) error {
	if err := m.launch(); err != nil {
		return err
	}
	return poll(ctx, func(ctx context.Context) (missing string, err error) {
		if err := m.failure(); err != nil {
			return "", err
		}
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		answer, err := m.Command(ctx, "srvr")
		if err != nil {
			return err.Error(), nil
		}
		if m.sole && modeOf(answer) == "" {
			return answer, nil
		}
		return "", nil
	})
}

// Stop ends the member in order, by SIGTERM, and returns when it has ended.
// One that takes longer than ten seconds is killed, which is an error. A
// paused member is resumed for it. Stopping one that does not run does nothing.
func (m *Member) Stop() error {
	if p := m.current(); p != nil {
		return p.stop(stopTimeout)
	}
	return nil
}

// Kill ends the member by SIGKILL and returns when it has ended. Killing one
// that does not run does nothing.
func (m *Member) Kill() error {
	if p := m.current(); p != nil {
		return p.kill()
	}
	return nil
}

// Pause stops the member in its tracks, by SIGSTOP, and returns when all its
// threads stand still. Its connections stay open, and the kernel accepts new
// ones for it.
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
	if m.process == nil || m.process.ended() {
		return nil
	}
	return m.process
}

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
		return errors.New("testserver: service is closed")
	case m.process != nil && !m.process.ended():
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
	p, err := startProcess(m.command(log))
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
	return m.Kill()
}
