package lifeline

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// The limits of a member, whatever a client sends.
const (
	mostSessions = 32 // of a program's store: one, and those that end while a leader's work winds down
	helloLimit   = 5 * time.Second
	answerLimit  = 5 * time.Second // a program that does not read its answers gets no more
	// windDown is how much longer the work of a program lasts that other processes guard. When the init of a PID
	// namespace ends, the kernel closes its files, and the pipe, before it kills the rest: 6.5 ms at most were seen.
	windDown  = 50 * time.Millisecond
	lastWords = 100 * time.Millisecond // what a dead program has said is read, as a rule at once: then the socket ends
)

// member is a store of a program.
type member struct {
	server *Server
	conn   *net.UnixConn
	pid    int32    // for people; 0 if the program is in another PID namespace
	pidfd  *os.File // of the program
	pipe   *os.File // the reading end
	id     identity // of the pipe
	done   chan struct{}

	mu       sync.Mutex
	sessions map[string]session // guarded by mu, as is guarded: by id
	guarded  bool               // other processes have had the pipe
}

type session struct {
	handover []byte
	ender    *shared
	ttl      time.Duration
}

// attend serves the program until it is dead, and ends its sessions then. The order of its lines is the rule of this
// package.
func (m *member) attend() {
	defer m.leave()
	if err := m.meet(); err != nil {
		m.server.log.Debug("not served", "error", err)
		return
	}
	var listening sync.WaitGroup
	listening.Go(m.listen)
	err := awaitExit(m.pidfd)
	died := time.Now()
	_ = m.conn.SetReadDeadline(died.Add(lastWords))
	listening.Wait()
	if err == nil {
		err = m.awaitPipe(died)
	}
	if err != nil {
		return
	}
	if m.guarded {
		time.Sleep(windDown)
	}
	m.end(died)
}

// past is a deadline that ends a wait.
var past = time.Unix(1, 0)

// dismiss ends the waits for what the program does. Its sessions are left alone. The caller holds the server's mu.
func (m *member) dismiss() {
	_ = m.conn.SetDeadline(past)
	if m.pipe != nil {
		_ = m.pipe.SetDeadline(past)
		_ = m.pidfd.SetDeadline(past)
	}
}

// leave gives back what the program has used.
func (m *member) leave() {
	s := m.server
	s.mu.Lock()
	delete(s.all, m)
	if s.pipes[m.id] == m {
		delete(s.pipes, m.id)
	}
	s.mu.Unlock()
	for _, one := range m.sessions {
		s.release(one.ender)
	}
	_ = m.conn.Close()
	if m.pipe != nil {
		_ = m.pipe.Close()
		_ = m.pidfd.Close()
	}
	close(m.done)
}

// meet finds out who the program is, and takes its descriptors. The kernel's own pidfd counts, where it gives one:
// Linux 6.5.
func (m *member) meet() error {
	if err := m.conn.SetDeadline(time.Now().Add(helloLimit)); err != nil {
		return err
	}
	user, err := peer(m.conn)
	if err != nil {
		return err
	}
	if own := uint32(os.Geteuid()); user.Uid != own && user.Uid != 0 && !m.server.allowed(user.Uid) {
		m.server.warnOf(user.Uid)
		return fmt.Errorf("uid %d is not allowed", user.Uid)
	}
	pidfd, pipe, err := receiveFiles(m.conn)
	if err != nil {
		return err
	}
	if kernel, err := peerPidfd(m.conn); err == nil {
		_ = pidfd.Close()
		pidfd = kernel
	}
	if err := control(pidfd, checkPidfd); err != nil {
		return errors.Join(err, pidfd.Close(), pipe.Close())
	}
	id, err := identify(pipe)
	s := m.server
	s.mu.Lock()
	m.pid, m.pidfd, m.pipe, m.id = user.Pid, pidfd, pipe, id
	if before := s.pipes[id]; before != nil && err == nil { // the store has lost its connection, and tells all anew
		before.dismiss()
	}
	s.pipes[id] = m
	closing := s.ctx.Err()
	s.mu.Unlock()
	return errors.Join(err, closing, m.conn.SetDeadline(time.Time{}))
}

// listen takes what the program says until the socket ends, or the program says what no program says. What it has said
// before stays. If there is nothing to stay, the program is not waited for.
func (m *member) listen() {
	defer func() {
		m.mu.Lock()
		sessions := len(m.sessions)
		m.mu.Unlock()
		if sessions == 0 {
			m.server.mu.Lock()
			defer m.server.mu.Unlock()
			m.dismiss()
		}
	}()
	in := bufio.NewReader(m.conn)
	answers := true
	for {
		f, err := readFrame(in)
		var reply frame
		if err == nil {
			reply, err = m.answer(f)
		}
		if err == nil && answers {
			_ = m.conn.SetWriteDeadline(time.Now().Add(answerLimit))
			answers = writeFrame(m.conn, reply) == nil
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) {
				m.server.log.Debug("a program is heard no more", "pid", m.pid, "error", err)
			}
			return
		}
	}
}

// answer does what a frame says.
func (m *member) answer(f frame) (reply frame, err error) {
	switch {
	case f.Add != nil:
		if err := m.add(f.Add); err != nil {
			return frame{Refused: f.Add.ID, Why: err.Error()}, nil
		}
		return frame{Done: f.Add.ID}, nil
	case f.Drop != "":
		m.drop(f.Drop)
		return frame{Done: f.Drop}, nil
	case f.Guarded:
		m.mu.Lock()
		defer m.mu.Unlock()
		m.guarded = true
		return frame{}, nil
	}
	return frame{}, errors.New("an empty frame")
}

func (m *member) add(e *entry) error {
	ender, err := m.server.acquire(e.Service)
	if err != nil {
		return err
	}
	m.drop(e.ID) // it may be told again
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.sessions) >= mostSessions {
		m.server.release(ender)
		return errors.New("too many sessions")
	}
	m.sessions[e.ID] = session{e.Handover, ender, e.Service.TTL}
	return nil
}

func (m *member) drop(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if one, ok := m.sessions[id]; ok {
		delete(m.sessions, id)
		m.server.release(one.ender)
	}
}

// awaitPipe waits until no process has the writing end of the pipe, but no longer than the service keeps the sessions
// of a program that has died. What is written into the pipe means nothing.
func (m *member) awaitPipe(died time.Time) error {
	m.mu.Lock()
	longest := time.Duration(0)
	for _, one := range m.sessions {
		longest = max(longest, one.ttl)
	}
	m.mu.Unlock()
	if err := m.limit(died.Add(longest)); err != nil {
		return err
	}
	return awaitHangup(m.pipe)
}

// limit bounds the wait for the pipe. Close has set a deadline that stays.
func (m *member) limit(deadline time.Time) error {
	m.server.mu.Lock()
	defer m.server.mu.Unlock()
	if err := m.server.ctx.Err(); err != nil {
		return err
	}
	return m.pipe.SetReadDeadline(deadline)
}

// end ends the sessions of a program that is dead.
func (m *member) end(died time.Time) {
	if len(m.sessions) == 0 {
		return
	}
	var tries sync.WaitGroup
	failed := make(chan error, len(m.sessions))
	for id, one := range m.sessions {
		tries.Go(func() {
			if err := m.server.endSession(id, one, died); err != nil {
				failed <- err
			}
		})
	}
	tries.Wait()
	close(failed)
	for err := range failed {
		m.server.log.Warn("a dead program's session was not ended; the service ends it after the TTL", "pid", m.pid, "error", err)
	}
	m.server.log.Info("a program has died", "pid", m.pid, "sessions", slices.Sorted(maps.Keys(m.sessions)), "took", time.Since(died))
}
