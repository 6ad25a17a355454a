package zookeeper

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/internal/lifeline"
)

func init() {
	lifeline.Register("zookeeper", func(s lifeline.Service) (lifeline.Ender, error) {
		secure, err := s.Secure.Config()
		return ender{s, secure, adapter.SystemDialer()}, err
	})
}

// Handover implements engine.Handover: who has the password may resume the session, and end it.
func (s *session) Handover() []byte { return s.password[:] }

// ender ends sessions of other processes.
type ender struct {
	service lifeline.Service
	secure  *tls.Config
	dialer  *adapter.Dialer
}

// End implements lifeline.Ender. It asks all servers at once, since some might be silent.
func (e ender) End(ctx context.Context, id string, password []byte) error {
	s := &session{}
	number, err := strconv.ParseUint(id, 16, 64)
	if err != nil || len(password) != len(s.password) {
		return fmt.Errorf("no session: %q", id)
	}
	s.id, s.password = int64(number), secret(password)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan error)
	for _, server := range e.service.Servers {
		go func() { answers <- e.endAt(ctx, server, s) }()
	}
	var errs []error
	for range e.service.Servers {
		err := <-answers
		if err == nil {
			cancel()
		}
		errs = append(errs, err)
	}
	if slices.Contains(errs, nil) {
		return nil
	}
	return errors.Join(errs...)
}

// endAt resumes the session at a server, and ends it there.
func (e ender) endAt(ctx context.Context, server string, s *session) error {
	conn, err := e.dialer.Dial(ctx, server)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer conn.Close()
	e.dialer.Leave(server, conn.RemoteAddr()) // the next attempt goes to another address of the name
	secured := conn
	if e.secure != nil {
		if secured, err = adapter.Secure(ctx, conn, e.secure, server); err != nil {
			return err
		}
	}
	w := newWire(secured)
	_, reply, err := w.shake(s, e.service.TTL, time.Minute) // until ctx ends
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", server, plain(err))
	case reply.Session == 0:
		return nil // it has ended
	case reply.Session != s.id:
		return fmt.Errorf("%s: another session was resumed", server)
	}
	return closeSession(w)
}

// closeRequest ends a session: the length of the rest, the number of the request, and the operation, which is -11.
var closeRequest = []byte{0, 0, 0, 8, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xf5}

// closeSession ends the session of a connection. The answer to the handshake is still to be read.
func closeSession(w *wire) error {
	_, err := w.Conn.Write(closeRequest)
	for i := 0; i < 2 && err == nil; i++ { // that answer, and the one to closeRequest
		var length int
		if length, err = w.frame(minFrame, maxFrame); err == nil {
			_, err = w.in.Discard(length)
		}
	}
	return plain(err)
}

// Close implements lifeline.Ender.
func (e ender) Close() error { return nil }
