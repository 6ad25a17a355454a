package lifeline

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"
)

// mostPrograms is how many stores of programs are served, whatever clients send.
const mostPrograms = 4096

// How a session is ended: tries of a second, until a TTL after the death. Then the service has ended it.
const (
	tryLimit = time.Second
	tryPause = 50 * time.Millisecond
)

// Server is a lifeline. It serves programs until Close.
//
// Its goroutines are Serve's, two for each store of a program, and one for each session that is being ended. Close
// waits for all of them.
type Server struct {
	listener *net.UnixListener
	allowed  func(uid uint32) bool
	log      *slog.Logger

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	members sync.WaitGroup

	mu     sync.Mutex
	all    map[*member]bool     // guarded by mu, as are all below
	pipes  map[identity]*member // by the pipe
	warned map[uint32]bool      // users that were refused
	enders map[string]*shared   // by the service in JSON: programs of one service share a connection to it
}

// shared is an Ender with the number of sessions that need it.
type shared struct {
	Ender
	key  string
	uses int // guarded by the server's mu
}

// NewServer returns a server for the programs of the users that are allowed, besides root and its own.
func NewServer(listener *net.UnixListener, allowed func(uid uint32) bool, log *slog.Logger) *Server {
	s := &Server{listener: listener, allowed: allowed, log: log, all: map[*member]bool{}, pipes: map[identity]*member{}, warned: map[uint32]bool{}, enders: map[string]*shared{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Serve serves until Close. If a program can't be served, for want of descriptors say, the program goes on without a
// lifeline.
func (s *Server) Serve() {
	for {
		conn, err := s.listener.AcceptUnix()
		switch {
		case s.ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			if err == nil {
				_ = conn.Close()
			}
			return
		case err != nil:
			s.log.Warn("can't serve a program", "error", err)
			select {
			case <-time.After(time.Second):
			case <-s.ctx.Done():
			}
		default:
			s.admit(conn)
		}
	}
}

// admit begins to serve a program.
func (s *Server) admit(conn *net.UnixConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil || len(s.all) >= mostPrograms {
		_ = conn.Close()
		return
	}
	m := &member{server: s, conn: conn, done: make(chan struct{}), sessions: map[string]session{}}
	s.all[m] = true
	s.members.Go(m.attend)
}

// warnOf logs once that a user is not allowed.
func (s *Server) warnOf(uid uint32) {
	s.mu.Lock()
	warned := s.warned[uid]
	s.warned[uid] = true
	s.mu.Unlock()
	if !warned {
		s.log.Warn("programs of this user are refused", "uid", uid)
	}
}

// Close ends the server. The sessions of programs that are dead are tried to be ended once more; those of programs that
// live are left alone.
func (s *Server) Close() {
	s.cancel()
	_ = s.listener.Close()
	s.mu.Lock()
	for m := range s.all {
		m.dismiss()
	}
	s.mu.Unlock()
	s.members.Wait()
}

// Drain serves no further program, and returns when those that it serves are dead and their sessions have ended.
func (s *Server) Drain() {
	_ = s.listener.Close()
	s.members.Wait()
}

// Settle waits until the sessions of all programs that are dead now have been ended, or ctx ends.
func (s *Server) Settle(ctx context.Context) {
	s.mu.Lock()
	var dead []*member
	for m := range s.all {
		if m.pidfd != nil {
			_ = control(m.pidfd, func(fd int) error {
				if exited(fd) {
					dead = append(dead, m)
				}
				return nil
			})
		}
	}
	s.mu.Unlock()
	for _, m := range dead {
		select {
		case <-m.done:
		case <-ctx.Done():
		}
	}
}

// endSession tries to end a session until a TTL after the death. Close cuts that short, but for one last try.
func (s *Server) endSession(id string, one session, died time.Time) error {
	for {
		last := s.ctx.Err() != nil
		ctx, cancel := context.WithTimeout(context.Background(), tryLimit)
		err := one.ender.End(ctx, id, one.handover)
		cancel()
		if err == nil || last || time.Since(died) > one.ttl {
			return err
		}
		select {
		case <-time.After(tryPause):
		case <-s.ctx.Done():
		}
	}
}

// acquire returns the Ender of a service.
func (s *Server) acquire(service Service) (*shared, error) {
	key, err := json.Marshal(service)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.enders[string(key)]
	if e == nil {
		opened, err := ender(service)
		if err != nil {
			return nil, err
		}
		e = &shared{Ender: opened, key: string(key)}
		s.enders[e.key] = e
	}
	e.uses++
	return e, nil
}

func (s *Server) release(e *shared) {
	s.mu.Lock()
	e.uses--
	last := e.uses == 0
	if last {
		delete(s.enders, e.key)
	}
	s.mu.Unlock()
	if last {
		_ = e.Close()
	}
}
