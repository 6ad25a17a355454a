package zookeeper

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// handshaken is a wire on which the connect request has been written, and the server's end of it.
func handshaken(t *testing.T, established func(int64, time.Duration, store.Instant)) (*wire, net.Conn) {
	t.Helper()
	client, server := net.Pipe()
	require.NoError(t, client.SetDeadline(time.Now().Add(time.Minute)))
	t.Cleanup(func() { _ = client.Close(); _ = server.Close() })
	w := &wire{Conn: client, established: established, reply: []byte{}}
	request := []byte("connect request")
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
		var ttl time.Duration
		w, server := handshaken(t, func(i int64, d time.Duration, sent store.Instant) {
			require.Zero(t, id, "established twice")
			id, ttl = i, d
		})
		frame := append(binary.BigEndian.AppendUint32(nil, 20), make([]byte, 20)...)
		go func() {
			for rest := append(connectReply(77, 4*time.Second), frame...); len(rest) > 0; {
				n := min(size, len(rest))
				_, _ = server.Write(rest[:n])
				rest = rest[n:]
			}
		}()
		for _, n := range []int{4, minReply, 4, 20} {
			_, err := io.ReadFull(w, make([]byte, n))
			require.NoError(t, err)
		}
		require.EqualValues(t, 77, id)
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
			w, server := handshaken(t, func(int64, time.Duration, store.Instant) {})
			go func() { _, _ = server.Write([]byte(sent)) }()
			_, err := io.ReadFull(w, make([]byte, len(sent)+1))
			require.ErrorContains(t, err, "not a ZooKeeper server")
		})
	}
}
