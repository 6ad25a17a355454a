package zookeeper

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
)

// A connect request has the version of the protocol, the last zxid that was seen, the timeout, the session's id, and its
// password with its length. The answer has the version, the timeout, the id, the password with its length, and a flag
// that older servers leave out.
//
// The zxid is always 0: no server is refused for being behind, since a confirmation comes before all reads of a connection,
// see serve.
const (
	passwordBytes = 16
	replyTimeout  = lengthBytes + 4
	replySession  = replyTimeout + 4
	replyPassword = replySession + 8 + 4
	minReply      = 4 + 4 + 8 + 4 + passwordBytes
	maxReply      = minReply + 1
)

// grant is a server's answer to a handshake.
type grant struct {
	id       int64 // 0: the session has expired
	password []byte
	ttl      time.Duration
	sent     store.Instant // when the handshake was sent
}

// shake makes the handshake, which asks for the session, or for a new one.
func (d *driver) shake(w *wire, address string) (*link, error) {
	defer context.AfterFunc(d.lifecycle.Background, func() { w.end(store.ErrClosed) })()
	s := d.asks()
	g, err := w.shake(s, d.config.TTL, d.limit())
	if err == nil {
		s, err = d.take(s, g)
	}
	if err != nil {
		w.end(err)
		return nil, w.why()
	}
	return newLink(d, w, address, s, g.sent)
}

// asks returns the session to ask for; nil for a new one. A session whose handshakes have had no answer for a TTL is given
// up: each might have prolonged the session at a server, and its ballots would block others for good.
func (d *driver) asks() (s *session) {
	d.set(func() {
		if s = d.current; s == nil {
			return
		}
		if s.asked.IsZero() {
			s.asked = time.Now()
		}
		if time.Since(s.asked) > d.config.TTL {
			d.lose(fmt.Errorf("no handshake was answered for %v", d.config.TTL))
			s = nil
		}
	})
	return s
}

// shake writes a connect request, and waits for the answer. The answer stays to be read.
func (w *wire) shake(s *session, ttl, limit time.Duration) (g grant, err error) {
	id, password := int64(0), make([]byte, passwordBytes)
	if s != nil {
		id, password = s.id, s.password
	}
	body := make([]byte, 4+8, minReply+8) // version and zxid
	body = binary.BigEndian.AppendUint32(body, uint32(ttl.Milliseconds()))
	body = binary.BigEndian.AppendUint64(body, uint64(id))
	body = append(binary.BigEndian.AppendUint32(body, passwordBytes), password...)
	if err := w.SetDeadline(time.Now().Add(limit)); err != nil {
		return g, err
	}
	g.sent = store.Now()
	if _, err := w.Conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)); err != nil {
		return g, err
	}
	n, err := w.frame(minReply, maxReply)
	if err != nil {
		return g, err
	}
	reply, err := w.in.Peek(n)
	if err != nil {
		return g, err
	}
	g.id = int64(binary.BigEndian.Uint64(reply[replySession:]))
	g.ttl = time.Duration(int32(binary.BigEndian.Uint32(reply[replyTimeout:]))) * time.Millisecond
	g.password = bytes.Clone(reply[replyPassword:][:passwordBytes])
	return g, w.SetDeadline(time.Time{})
}

// take takes what a server has granted; s is the session that was asked for.
func (d *driver) take(s *session, g grant) (granted *session, err error) {
	d.set(func() {
		switch {
		case g.id == 0 && s != nil:
			d.lose(nil)
			err = errExpired
			return
		case g.id == 0:
			err = fmt.Errorf("the server grants no session")
			return
		case s != nil && g.id != s.id: // no answer to what was asked for: s.asked stays
			err = fmt.Errorf("the server grants session %#x instead of %#x", uint64(g.id), uint64(s.id))
			return
		}
		d.granted = true
		known := s != nil
		if !known {
			s = &session{driver: d, id: g.id, password: g.password, lost: make(chan struct{})}
			d.current = s
		}
		s.asked = time.Time{}
		if !s.ending && (g.ttl < d.config.TTL || g.ttl > d.config.TTL && !known) {
			// The ensemble might end the session before the lease ends, or counts a shorter TTL already. So the session is
			// closed, and its ballots go. More is no harm to a session that was granted less.
			d.refused = adapter.Refuse("ttl", d.config.TTL.String(), "the ensemble grants %v instead", g.ttl)
			d.lose(d.refused)
		}
		granted = s
	})
	return granted, err
}
