package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// session is what the driver knows of a session. It implements engine.Session. The driver confirms the session from the
// first connection on, see serve. The engine has it from Open on.
type session struct {
	driver   *driver
	id       int64 // constant, as is password: the handshake that resumes the session has both
	password secret
	lost     chan struct{} // closed when the driver learns that the session is over, or gives it up

	left    error              // guarded by the driver's mu, as are all to ending: why it was given up; nil if it is known to be over
	useless time.Time          // when it was first asked for since requests could use a connection; zero while they can
	proof   engine.Proof       // the last; zero before the first
	renewed func(engine.Proof) // Keep's; nil while it does not run
	opened  bool               // the engine has it
	ending  bool               // the next connection, or the present one, ends it

	kept error // what Keep returned; only the engine's goroutine for the session uses it

	creations sync.Map // of <-chan result[string], by nonce: the answers to Enter's requests whose outcome the engine does not know
}

// ID implements engine.Session.
func (s *session) ID() string { return sessionName(s.id) }

func sessionName(id int64) string { return strconv.FormatUint(uint64(id), 16) }

// up returns the session's connection. If there is none, it waits for one.
func (s *session) up(ctx context.Context) (*link, error) {
	l, err := s.driver.up(ctx)
	s.driver.mu.Lock()
	defer s.driver.mu.Unlock()
	if over := s.over(); over != nil {
		return nil, over
	}
	return l, err
}

// over returns engine.ErrOver if the session has ended, and why it was given up if it was. The caller holds the driver's
// mu.
func (s *session) over() error {
	switch {
	case s.driver.current == s:
		return nil
	case s.left != nil:
		return fmt.Errorf("%w: %w", store.ErrUnavailable, s.left)
	}
	return engine.ErrOver
}

// prove records a proof that the session stands, unless the session has been given up. The caller holds the driver's mu.
func (s *session) prove(p engine.Proof) {
	if s.left != nil {
		return
	}
	s.proof = p
	if s.renewed != nil {
		s.renewed(p)
	}
}

// Keep implements engine.Session. The driver confirms the session even if Keep does not run.
func (s *session) Keep(ctx context.Context, renewed func(engine.Proof)) error {
	d := s.driver
	d.set(func() {
		s.renewed = renewed
		if s.proof != (engine.Proof{}) {
			renewed(s.proof)
		}
	})
	defer d.set(func() { s.renewed = nil })
	select {
	case <-s.lost:
		d.set(func() { s.kept = s.left })
	case <-ctx.Done():
		s.kept = context.Cause(ctx)
	}
	return s.kept
}

// End implements engine.Session. The library's own request ends the session, on the session's connection. If there is no
// connection, the next one resumes the session and ends it. So the next session begins when nothing is left of this one.
// If no server can be reached, the session is over after its timeout. When the store is closed, Close ends the session.
func (s *session) End(ctx context.Context, _ []engine.Removal) error {
	d := s.driver
	if errors.Is(s.kept, adapter.ErrClosed) {
		return nil
	}
	d.set(func() { s.ending = true })
	err := d.until(ctx, func() (bool, error) { return false, s.over() })
	if errors.Is(err, engine.ErrOver) {
		return nil
	}
	return err
}

// lose forgets the present session, if there is one: the session is over, or given up for the reason given. The caller
// holds mu.
func (d *driver) lose(left error) {
	if d.current != nil {
		d.current.leave(left)
		d.current = nil
	}
}

// leave ends Keep. why is the reason for which the session is given up; nil: it is over. The caller holds the driver's mu.
func (s *session) leave(why error) {
	s.left = why
	select {
	case <-s.lost: // it has been given up before
	default:
		close(s.lost)
	}
}
