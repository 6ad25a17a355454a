package zookeeper

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/internal/lifeline"
)

func init() {
	lifeline.Register("zookeeper", func(s lifeline.Service) (lifeline.Ender, error) {
		secure, err := s.Secure.Config()
		return ender{s, secure}, err
	})
}

// Handover implements engine.Handover: who has the password may resume the session, and end it.
func (s *session) Handover() []byte { return s.password }

// ender ends sessions of other processes.
type ender struct {
	service lifeline.Service
	secure  *tls.Config
}

// End implements lifeline.Ender. It asks all servers at once, at each address of their names, since some might be silent.
func (e ender) End(ctx context.Context, id string, password []byte) error {
	number, err := strconv.ParseUint(id, 16, 64)
	if err != nil || len(password) != passwordBytes {
		return fmt.Errorf("no session: %q", id)
	}
	s := &session{id: int64(number), password: password}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var errs []error
	ended, asked := make(chan error), 0
	for _, server := range e.service.Servers {
		addresses, err := adapter.SystemDialer().Addresses(ctx, server)
		if err != nil {
			errs = append(errs, err)
		}
		for _, address := range addresses {
			asked++
			go func() { ended <- e.endAt(ctx, server, address, s) }()
		}
	}
	done := false
	for range asked {
		if err := <-ended; err != nil {
			errs = append(errs, err)
			continue
		}
		done = true
		cancel()
	}
	if done {
		return nil
	}
	return errors.Join(errs...)
}

// endAt resumes the session at an address of a server, and ends it there.
func (e ender) endAt(ctx context.Context, server, address string, s *session) error {
	plainConn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = plainConn.Close() })()
	defer plainConn.Close()
	conn := plainConn
	if e.secure != nil {
		if conn, err = adapter.Secure(ctx, plainConn, e.secure, server); err != nil {
			return err
		}
	}
	w := newWire(conn)
	g, err := w.shake(s, e.service.TTL, time.Minute) // until ctx ends
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", server, plain(err))
	case g.id == 0:
		return nil // it has ended
	case g.id != s.id:
		return fmt.Errorf("%s: another session was resumed", server)
	}
	return closeSession(w)
}

// closeRequest ends a session: the length of the rest, the number of the request, and the operation, which is -11.
var closeRequest = []byte{0, 0, 0, 8, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xf5}

// closeSession ends the session of a connection. The answer to the handshake is still to be read.
func closeSession(w *wire) error {
	if _, err := w.Conn.Write(closeRequest); err != nil {
		return err
	}
	for _, limits := range [][2]int{{minReply, maxReply}, {minFrame, maxFrame}} {
		n, err := w.frame(limits[0], limits[1])
		if err == nil {
			_, err = w.in.Discard(n)
		}
		if err != nil {
			return plain(err)
		}
	}
	return nil
}

// Close implements lifeline.Ender.
func (e ender) Close() error { return nil }
