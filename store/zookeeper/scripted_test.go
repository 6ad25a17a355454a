package zookeeper

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The opcodes of requests that the scripted server is sent, and of results in its answers.
const (
	opCheck = 13
	opMulti = 14
	opError = -1
)

// moved is the code of zk.ErrSessionMoved.
const moved = -118

// scriptedServer grants the session asked to each connection. Then it answers requests: confirmations with the code that
// the connection has been given, as a transaction whose only part has failed, and all others without an error.
type scriptedServer struct {
	ttl   time.Duration
	grace time.Duration                // of the driver; 0 for the default
	trip  time.Duration                // how long an answer takes
	most  int                          // how many connections it accepts; 0 for any number
	code  func(dial int) (int32, bool) // the error of its confirmations, and whether it answers anything after the handshake

	dials []time.Time // written by the goroutine that dials
}

// dial is Config.Dial.
func (s *scriptedServer) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	s.dials = append(s.dials, time.Now())
	if s.most > 0 && len(s.dials) > s.most {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	client, server := net.Pipe()
	code, answers := s.code(len(s.dials))
	go func() {
		defer func() { _ = server.Close() }()
		if readFrame(server) == nil {
			return
		}
		time.Sleep(s.trip)
		if _, err := server.Write(connectReply(asked, s.ttl)); err != nil || !answers {
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
			request := readFrame(server)
			if request == nil {
				return
			}
			due := time.Now().Add(s.trip)
			answering <- func() {
				time.Sleep(time.Until(due))
				_, _ = server.Write(reply(request, code))
			}
		}
	}()
	return client, nil
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
	d, err := newDriver(Config{Servers: []string{"127.0.0.1:2181"}, TTL: s.ttl, Grace: s.grace, Dial: s.dial})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = d.Close()
		time.Sleep(2 * s.trip) // until the last answer has been given up
	})
	return d
}

// A server answers each request that the session has moved to another one. The connection is given up, and the session
// goes on with the next.
func TestSessionMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{ttl: 6 * time.Second, code: func(dial int) (int32, bool) {
			if dial == 1 {
				return moved, true
			}
			return 0, true
		}}
		d := s.driver(t)
		sess, err := d.await(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, d.Confirm(ctx))
		require.NoError(t, d.still(sess), "the session is the same")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, s.dials, 2)
	})
}

// A server hangs up after the handshake, or after it has answered for a moment. It is not dialled without a pause.
func TestServerHangsUpAfterTheHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{ttl: 6 * time.Second, most: 1000, code: func(int) (int32, bool) { return 0, false }}
		d := s.driver(t)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Less(t, len(s.dials), 4*60+10)
		require.Greater(t, len(s.dials), 3*60)
		require.Less(t, s.dials[1].Sub(s.dials[0]), 100*time.Millisecond, "the first pause is short")
		require.ErrorContains(t, d.unreached(t.Context()), "127.0.0.1:2181: the server closed the connection")
	})
}
