package zookeeper

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The opcodes of requests that the scripted server is sent, and of results in its answers.
const (
	opCreate = 1
	opList   = 12
	opCheck  = 13
	opMulti  = 14
	opClose  = -11
	opError  = -1

	opSetAuth = 100
)

// moved is the code of zk.ErrSessionMoved; authFailed is that of zk.ErrAuthFailed as it is sent.
const (
	moved      = -118
	authFailed = 1<<32 - 115
)

// granted is the first session that a scripted server makes.
const granted = 77

// scriptedServer answers handshakes: by default it makes the next session, or resumes any. Then it answers requests:
// confirmations with a code, as a transaction whose only part has failed, and all others without an error.
type scriptedServer struct {
	ttl   time.Duration
	grace time.Duration                                        // of the driver; 0 for the default
	trip  time.Duration                                        // how long an answer takes
	less  time.Duration                                        // by which each handshake grants less than the one before
	most  int                                                  // how many connections it accepts; 0 for any number
	grant func(dial int, asked int64) (id int64, answers bool) // nil for the default; an id of -1 too
	code  func(dial int) int32                                 // the error of its confirmations; nil for none
	mute  func(dial int, op int32) bool                        // whether it answers no more from this request on; nil for never
	zxid  func(dial int) int64                                 // of its answers; nil for 1
	skips int32                                                // requests that it does not answer
	user  string                                               // of the driver
	auth  func(dial int, identity string) bool                 // whether an identity is accepted; nil for always

	hangs bool // up after each handshake

	mu    sync.Mutex
	made  int64 // guarded by mu, as is the rest: how many sessions
	dials []time.Time
	asked []int64 // the sessions in the handshakes
	ended []int   // the dials on which it was asked to end the session
}

// dial is Config.Dial.
func (s *scriptedServer) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	s.mu.Lock()
	s.dials = append(s.dials, time.Now())
	dial := len(s.dials)
	s.mu.Unlock()
	if s.most > 0 && dial > s.most {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	client, server := net.Pipe()
	go s.serve(server, dial)
	return client, nil
}

// serve answers on a connection, each request after a round trip.
func (s *scriptedServer) serve(conn net.Conn, dial int) {
	defer func() { _ = conn.Close() }()
	connect := readFrame(conn)
	if connect == nil {
		return
	}
	asked, id, answers := int64(binary.BigEndian.Uint64(connect[16:])), int64(-1), true
	if s.grant != nil {
		id, answers = s.grant(dial, asked)
	}
	s.mu.Lock()
	s.asked = append(s.asked, asked)
	if id < 0 {
		if id = asked; id == 0 {
			id = granted + s.made
			s.made++
		}
	}
	s.mu.Unlock()
	if !answers || secret(connect[28:]) != password(asked) {
		_, _ = io.Copy(io.Discard, conn)
		return
	}
	time.Sleep(s.trip)
	if _, err := conn.Write(handshakeReply(id, s.ttl-time.Duration(dial-1)*s.less)); err != nil || s.hangs {
		time.Sleep(s.trip) // until the answer has been taken
		return
	}
	answering := make(chan func(), 100)
	defer close(answering)
	go func() {
		for answer := range answering {
			answer()
		}
	}()
	for {
		request := readFrame(conn)
		if request == nil {
			return
		}
		op := int32(binary.BigEndian.Uint32(request[4:]))
		if op == opClose {
			s.mu.Lock()
			s.ended = append(s.ended, dial)
			s.mu.Unlock()
		}
		if s.mute != nil && s.mute(dial, op) {
			_, _ = io.Copy(io.Discard, conn)
			return
		}
		if op == s.skips {
			continue
		}
		code := int32(0)
		if s.code != nil {
			code = s.code(dial)
		}
		due := time.Now().Add(s.trip)
		answering <- func() {
			time.Sleep(time.Until(due))
			answer := reply(request, code)
			if s.zxid != nil {
				binary.BigEndian.PutUint64(answer[lengthBytes+4:], uint64(s.zxid(dial)))
			}
			if op == opSetAuth && s.auth != nil && !s.auth(dial, string(request[26:])) {
				binary.BigEndian.PutUint32(answer[lengthBytes+12:], authFailed)
				defer conn.Close()
			}
			_, _ = conn.Write(answer)
		}
	}
}

// readFrame returns a request without its length, or nil.
func readFrame(conn net.Conn) []byte {
	length := make([]byte, lengthBytes)
	if _, err := io.ReadFull(conn, length); err != nil {
		return nil
	}
	frame := make([]byte, binary.BigEndian.Uint32(length))
	if _, err := io.ReadFull(conn, frame); err != nil {
		return nil
	}
	return frame
}

// handshakeReply is the answer to a handshake, with the password that goes with the id.
func handshakeReply(id int64, timeout time.Duration) []byte {
	reply := connectReply{minReply, 0, int32(timeout.Milliseconds()), id, int32(len(secret{})), password(id)}
	b, _ := binary.Append(nil, binary.BigEndian, reply)
	return b
}

func password(id int64) secret { return secret(bytes.Repeat([]byte{byte(id)}, len(secret{}))) }

// reply is the answer to a request.
func reply(request []byte, code int32) []byte {
	b := bytes.Clone(request[:4])           // the xid
	b = binary.BigEndian.AppendUint64(b, 1) // the zxid
	b = binary.BigEndian.AppendUint32(b, 0) // the error
	header := func(op int32, done byte) {
		b = append(binary.BigEndian.AppendUint32(b, uint32(op)), done)
		b = binary.BigEndian.AppendUint32(b, uint32(code))
	}
	if binary.BigEndian.Uint32(request[4:]) == opMulti {
		op := int32(opCheck)
		if code != 0 {
			op = opError
		}
		header(op, 0)
		if code != 0 {
			b = binary.BigEndian.AppendUint32(b, uint32(code))
		}
		header(opError, 1)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

// driver returns a driver of the server's.
func (s *scriptedServer) driver(t *testing.T) *driver {
	t.Helper()
	return s.driverAt(t, []string{"127.0.0.1:2181"}, s.dial)
}

func (s *scriptedServer) driverAt(t *testing.T, servers []string, dial func(ctx context.Context, network, address string) (net.Conn, error)) *driver {
	t.Helper()
	d, err := newDriver(Config{Servers: servers, TTL: s.ttl, Grace: s.grace, Dial: dial, User: s.user, Password: s.user})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = d.Close()
		time.Sleep(2 * s.trip) // until the last answer has been given up
	})
	return d
}

// session returns the driver's session when it has a connection.
func (s *scriptedServer) session(t *testing.T, d *driver) *session {
	t.Helper()
	for {
		l, err := d.up(t.Context())
		if err == nil {
			return l.session
		}
		require.NotErrorIs(t, err, t.Context().Err())
		time.Sleep(time.Millisecond) // a denial comes at once
	}
}
