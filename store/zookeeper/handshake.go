package zookeeper

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
)

// secret is the password of a session.
type secret [16]byte

// connectRequest is a handshake, with its length.
//
// The zxid is always 0: no server is refused for being behind, since a confirmation comes before all reads of a connection,
// see serve.
type connectRequest struct {
	Length, Version int32
	Zxid            int64
	Millis          int32
	Session         int64
	PasswordLength  int32
	Password        secret
}

// connectReply is a server's answer. Newer servers add a flag.
type connectReply struct {
	Length, Version, Millis int32
	Session                 int64 // 0: the session has expired
	PasswordLength          int32
	Password                secret
}

// The lengths of a handshake and of its answer.
const (
	requestLength = 4 + 8 + 4 + 8 + 4 + 16
	minReply      = 4 + 4 + 8 + 4 + 16
	maxReply      = minReply + 1
)

// shake makes the handshake, which asks for the session, or for a new one.
func (d *driver) shake(w *wire, address string) (*link, error) {
	defer context.AfterFunc(d.lifecycle.Background, func() { w.end(store.ErrClosed) })()
	s := d.asks()
	sent, reply, err := w.shake(s, d.config.TTL, d.limit())
	if err == nil {
		s, err = d.take(s, reply)
	}
	if err != nil {
		w.end(err)
		return nil, w.why()
	}
	return newLink(d, w, address, s, sent)
}

// asks returns the session to ask for; nil for a new one. If no connection has been of use for a TTL, the session is given
// up: each handshake might have prolonged the session at a server, and its ballots would block others for good.
func (d *driver) asks() (s *session) {
	d.set(func() {
		if s = d.current; s != nil && s.useless.IsZero() {
			s.useless = time.Now()
		}
		if s != nil && time.Since(s.useless) > d.config.TTL {
			d.lose(fmt.Errorf("no connection was of use for %v: %w", d.config.TTL, d.trouble))
			s = nil
		}
	})
	return s
}

// shake writes a connect request, and waits for the answer. The answer stays to be read.
func (w *wire) shake(s *session, ttl, limit time.Duration) (sent store.Instant, reply connectReply, err error) {
	request := connectRequest{Length: requestLength, Millis: int32(ttl.Milliseconds()), PasswordLength: int32(len(secret{}))}
	if s != nil {
		request.Session, request.Password = s.id, s.password
	}
	err = w.SetDeadline(time.Now().Add(limit))
	if sent = store.Now(); err == nil {
		err = binary.Write(w.Conn, binary.BigEndian, request)
	}
	length := 0
	if err == nil {
		length, err = w.frame(minReply, maxReply)
	}
	if err != nil {
		return sent, reply, err
	}
	frame, err := w.in.Peek(length)
	if err == nil {
		_, err = binary.Decode(frame, binary.BigEndian, &reply)
	}
	return sent, reply, errors.Join(err, w.SetDeadline(time.Time{}))
}

// take takes what a server has granted; s is the session that was asked for.
func (d *driver) take(s *session, r connectReply) (granted *session, err error) {
	d.set(func() {
		switch {
		case s != nil && r.Session == 0:
			d.lose(nil)
			err = errExpired
			return
		case r.Session == 0, s != nil && r.Session != s.id:
			err = fmt.Errorf("the server grants session %#x, which was not asked for", uint64(r.Session))
			return
		}
		d.granted = true
		ttl, known := time.Duration(r.Millis)*time.Millisecond, s != nil
		if !known {
			s = &session{driver: d, id: r.Session, password: r.Password, lost: make(chan struct{})}
			d.current = s
		}
		if !s.ending && (ttl < d.config.TTL || ttl > d.config.TTL && !known) {
			// The ensemble might end the session before the lease ends, or counts a shorter TTL already. So the session is
			// closed, and its ballots go. More is no harm to a session that was granted less.
			d.refused = adapter.Refuse("ttl", d.config.TTL.String(), "the ensemble grants %v instead", ttl)
			d.lose(d.refused)
		}
		granted = s
	})
	return granted, err
}
