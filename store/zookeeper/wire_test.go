package zookeeper

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"testing"
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
	w := &wire{Conn: client, established: established, timedOut: func() {}, reply: []byte{}, last: new(atomic.Uint64)}
	w.abandoned, w.watched = func() int64 { return 0 }, func([]watchKey, bool) {}
	request := binary.BigEndian.AppendUint64(make([]byte, requestSession), asked)
	go func() { _, _ = w.Write(request) }()
	_, err := io.ReadFull(server, make([]byte, len(request)))
	require.NoError(t, err)
	return w, server
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
	for size := 1; size <= replyEnd+20; size++ {
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

// A zxid is not shown, however its frame was cut, and is in the next requests that tell it.
func TestWireKeepsTheZxidToItself(t *testing.T) {
	const zxid = uint64(0x1122334455667788)
	frame := binary.BigEndian.AppendUint32(nil, 20)
	frame = binary.BigEndian.AppendUint32(frame, 1)
	frame = binary.BigEndian.AppendUint64(frame, zxid)
	frame = append(frame, make([]byte, 8)...)
	event := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, 20), 0xffffffff_ffffffff)
	event = append(append(event, 0xff, 0xff, 0xff, 0xff), make([]byte, 8)...)
	setWatches := binary.BigEndian.AppendUint32(make([]byte, requestOpcode), opSetWatches)
	setWatches = append(setWatches, make([]byte, 8)...)
	for size := 1; size <= len(frame); size++ {
		w, server := handshaken(t, func(int64, bool, time.Duration, store.Instant) {})
		go func() {
			for rest := append(append(connectReply(77, time.Second), frame...), event...); len(rest) > 0; {
				n := min(size, len(rest))
				_, _ = server.Write(rest[:n])
				rest = rest[n:]
			}
		}()
		read := func(n int) []byte {
			p := make([]byte, n)
			_, err := io.ReadFull(w, p)
			require.NoError(t, err)
			return p
		}
		read(4 + minReply)
		require.Zero(t, binary.BigEndian.Uint64(read(len(frame))[lengthBytes+frameZxid:]))
		read(len(event))
		require.Equal(t, zxid, w.last.Load())

		client, server := net.Pipe()
		later := &wire{Conn: client, reply: []byte{}, last: w.last, abandoned: w.abandoned}
		for _, request := range [][]byte{make([]byte, requestZxid+8), setWatches} {
			go func() { _, _ = later.Write(request) }()
			p := make([]byte, len(request))
			_, err := io.ReadFull(server, p)
			require.NoError(t, err)
			require.Equal(t, zxid, binary.BigEndian.Uint64(p[len(p)-8:]))
		}
	}
}

// The answers to the requests that set watches tell which the server has, however their frames were cut.
func TestWireTellsWhichWatchesAreSet(t *testing.T) {
	text := func(b []byte, s string) []byte {
		return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
	}
	request := func(xid, op uint32, body []byte) []byte {
		b := binary.BigEndian.AppendUint32(nil, uint32(8+len(body)))
		return append(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, xid), op), body...)
	}
	list := func(b []byte, paths ...string) []byte {
		b = binary.BigEndian.AppendUint32(b, uint32(len(paths)))
		for _, p := range paths {
			b = text(b, p)
		}
		return b
	}
	again := list(list(list(make([]byte, 8), "/a", "/b"), "/absent"), "/children")
	answer := func(xid uint32, code int32, body int) []byte {
		b := binary.BigEndian.AppendUint32(nil, uint32(minFrame+body))
		b = append(binary.BigEndian.AppendUint32(b, xid), 0, 0, 0, 0, 0, 0, 0, 1)
		return append(binary.BigEndian.AppendUint32(b, uint32(code)), make([]byte, body)...)
	}
	type told struct {
		keys  []watchKey
		again bool
	}
	for size := 1; size <= minFrame+lengthBytes+1; size++ {
		w, server := handshaken(t, func(int64, bool, time.Duration, store.Instant) {})
		var all []told
		w.watched = func(keys []watchKey, again bool) { all = append(all, told{keys, again}) }
		for _, r := range [][]byte{
			request(1, opGetData, append(text(nil, "/read"), 1)),
			request(2, opGetData, append(text(nil, "/not watched"), 0)),
			request(3, opGetData, append(text(nil, "/gone"), 1)),
			request(4, opExists, append(text(nil, "/not yet"), 1)),
			request(5, opSetWatches, again),
			request(6, opSetWatches, again),
			request(7, opSetWatches, again),
			request(8, opSetWatches, again[:len(again)/2]), // no client sends this
			request(0xffffffff, 11, nil),
		} {
			go func() { _, _ = w.Write(r) }()
			_, err := io.ReadFull(server, make([]byte, len(r)))
			require.NoError(t, err)
		}
		answers := [][]byte{
			connectReply(asked, time.Second), answer(1, 0, 100), answer(2, 0, 100), answer(3, codeNoNode, 0), answer(4, codeNoNode, 0),
			answer(5, 0, 0), answer(5, 0, 0), answer(6, -4, 0), answer(0xffffffff, 0, 20),
		}
		go func() {
			for rest := slices.Concat(answers...); len(rest) > 0; {
				n := min(size, len(rest))
				_, _ = server.Write(rest[:n])
				rest = rest[n:]
			}
		}()
		for _, a := range answers {
			_, err := io.ReadFull(w, make([]byte, lengthBytes))
			require.NoError(t, err)
			_, err = io.ReadFull(w, make([]byte, len(a)-lengthBytes))
			require.NoError(t, err)
		}
		require.Equal(t, []told{
			{[]watchKey{{"/read", false}}, false},
			{[]watchKey{{"/not yet", true}}, false},
			{[]watchKey{{"/a", false}, {"/b", false}, {"/absent", true}}, true},
		}, all, "7 has not been answered, 6 was refused")
	}
}
