package zookeeper

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// asked is the session for which handshaken asks.
const asked = 77

// handshaken is a wire on which the connect request has been written, and the server's end of it.
func handshaken(t *testing.T, established func(int64, bool, time.Duration, store.Instant)) (*wire, net.Conn) {
	t.Helper()
	client, server := net.Pipe()
	require.NoError(t, client.SetDeadline(time.Now().Add(time.Minute)))
	t.Cleanup(func() { _ = client.Close(); _ = server.Close() })
	w := newWire(client)
	w.established, w.timedOut, w.broke = established, func() {}, func(error) {}
	send(t, w, server, connectRequest(0, asked))
	return w, server
}

// send writes a request, and returns what has arrived.
func send(t *testing.T, w *wire, server net.Conn, request []byte) []byte {
	t.Helper()
	go func() {
		_, _ = w.Write(request)
		_, _ = w.Conn.Write([]byte{0xee})
	}()
	var arrived []byte
	for b := make([]byte, 1); ; {
		_, err := io.ReadFull(server, b)
		require.NoError(t, err)
		if b[0] == 0xee {
			return arrived
		}
		arrived = append(arrived, b[0])
	}
}

func connectRequest(zxid, session uint64) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, requestZxid), zxid)
	return binary.BigEndian.AppendUint64(append(b, 0, 0, 0, 0), session)
}

func connectReply(id int64, timeout time.Duration) []byte {
	b := binary.BigEndian.AppendUint32(nil, minReply)
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(timeout.Milliseconds()))
	b = binary.BigEndian.AppendUint64(b, uint64(id))
	b = binary.BigEndian.AppendUint32(b, 16)
	return append(b, make([]byte, 16)...)
}

func TestWireReadsTheSessionHoweverTheReplyIsCut(t *testing.T) {
	for size := 1; size <= minReply+24; size++ {
		var id int64
		var resumed bool
		var ttl time.Duration
		granted := asked + int64(size%2)
		w, server := handshaken(t, func(i int64, same bool, d time.Duration, sent store.Instant) {
			require.Zero(t, id, "established twice")
			id, resumed, ttl = i, same, d
		})
		frame := append(binary.BigEndian.AppendUint32(nil, 20), make([]byte, 20)...)
		go func() {
			for rest := append(connectReply(granted, 4*time.Second), frame...); len(rest) > 0; {
				n := min(size, len(rest))
				_, _ = server.Write(rest[:n])
				rest = rest[n:]
			}
		}()
		for _, n := range []int{4, minReply, 4, 20} {
			require.Equal(t, n == 4 && id == 0, w.state != shaken, "the deadline of the handshake holds")
			_, err := io.ReadFull(w, make([]byte, n))
			require.NoError(t, err)
		}
		require.Equal(t, granted, id)
		require.Equal(t, granted == asked, resumed)
		require.Equal(t, 4*time.Second, ttl)
	}
}

func TestWireRefusesFramesThatNoServerSends(t *testing.T) {
	for name, sent := range map[string]string{
		"a web server":       "HTTP/1.1 400 Bad Request\r\n\r\n",
		"a shell server":     "SSH-2.0-OpenSSH_9.2\r\n",
		"an empty frame":     "\x00\x00\x00\x00",
		"a short next frame": string(connectReply(1, time.Second)) + "\x00\x00\x00\x08abcdefgh",
		"a huge next frame":  string(connectReply(1, time.Second)) + "\x7f\xff\xff\xff",
	} {
		t.Run(name, func(t *testing.T) {
			w, server := handshaken(t, func(int64, bool, time.Duration, store.Instant) {})
			go func() { _, _ = server.Write([]byte(sent)) }()
			_, err := io.ReadFull(w, make([]byte, len(sent)+1))
			require.ErrorContains(t, err, "not a ZooKeeper server")
		})
	}
}

// The connect request is changed as the driver wants, and the library's buffer is not.
func TestWireConnects(t *testing.T) {
	const zxid = 0x1122334455667788
	for _, forget := range []bool{false, true} {
		for _, leaving := range []int64{0, asked, asked + 1} {
			client, server := net.Pipe()
			w := newWire(client)
			w.forget, w.leaving = forget, leaving
			request := connectRequest(zxid, asked)
			expected := connectRequest(zxid, asked)
			if forget {
				expected = connectRequest(0, asked)
			}
			if leaving == asked {
				expected = append(expected, closeSession...)
			}
			require.Equal(t, expected, send(t, w, server, request))
			require.Equal(t, connectRequest(zxid, asked), request)
			_, _ = client.Close(), server.Close()
		}
	}
}

// Reads of the nodes that the driver wants to watch set a watch; all else is sent unchanged.
func TestWireSetsWatches(t *testing.T) {
	w, server := handshaken(t, nil)
	w.wanted = func(key watchKey) bool { return key == watchKey{"/read", false} || key == watchKey{"/not yet", true} }
	request := func(op uint32, path string, flag byte) []byte {
		b := binary.BigEndian.AppendUint32(nil, uint32(4+4+4+len(path)+1))
		b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, 1), op)
		b = binary.BigEndian.AppendUint32(b, uint32(len(path)))
		return append(append(b, path...), flag)
	}
	const opDelete = 2
	for _, r := range []struct {
		op   uint32
		path string
		set  byte
	}{
		{opGetData, "/read", 1}, {opGetData, "/other", 0}, {opGetData, "/not yet", 0}, {opExists, "/not yet", 1},
		{opExists, "/read", 0}, {opDelete, "/read", 0},
	} {
		sent := request(r.op, r.path, 0)
		require.Equal(t, request(r.op, r.path, r.set), send(t, w, server, sent))
		require.Equal(t, request(r.op, r.path, 0), sent, "the library's buffer is its own")
	}
	ping := []byte{0, 0, 0, 8, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 11}
	require.Equal(t, ping, send(t, w, server, ping))
}

// The library's deadlines hold only after the handshake, which has a deadline of the driver's.
func TestWireHasTheLibrarysDeadlinesAfterTheHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, server := handshaken(t, func(int64, bool, time.Duration, store.Instant) {})
		require.NoError(t, w.Conn.SetDeadline(time.Now().Add(time.Second)))
		require.NoError(t, w.SetReadDeadline(time.Now()))
		require.NoError(t, w.SetWriteDeadline(time.Now()))
		reply := connectReply(asked, time.Second)
		go func() { _, _ = server.Write(reply) }()
		_, err := io.ReadFull(w, make([]byte, len(reply)))
		require.NoError(t, err)

		time.Sleep(time.Minute)
		frame := append([]byte{0, 0, 0, minFrame}, make([]byte, minFrame)...)
		go func() { _, _ = server.Write(frame) }()
		_, err = io.ReadFull(w, make([]byte, len(frame)))
		require.NoError(t, err, "the handshake's deadline ends with it")

		began := time.Now()
		require.NoError(t, w.SetReadDeadline(began.Add(time.Hour)))
		_, err = w.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, time.Hour, time.Since(began))
	})
}

// A failed read closes the connection, so that no request takes it for one that is up. A handshake without an answer is
// counted: the next one has longer.
func TestWireClosesOnAFailedRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var timedOut int
		open := func() (*wire, net.Conn) {
			w, server := handshaken(t, func(int64, bool, time.Duration, store.Instant) {})
			w.timedOut = func() { timedOut++ }
			return w, server
		}
		w, _ := open()
		_, err := w.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, 1, timedOut)
		require.True(t, w.gone.Load())

		w, server := open()
		require.NoError(t, server.Close())
		_, err = w.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, 1, timedOut, "that server has said something")
		require.True(t, w.gone.Load())

		w, server = open()
		reply := connectReply(asked, time.Second)
		go func() { _, _ = server.Write(reply) }()
		_, err = io.ReadFull(w, make([]byte, len(reply)))
		require.NoError(t, err)
		require.NoError(t, w.SetReadDeadline(time.Now()))
		_, err = w.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, 1, timedOut, "the handshake has been answered")
	})
}
