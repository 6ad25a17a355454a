package bench

import (
	"context"
	"encoding/binary"
	"io"
	"log"
	"net"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// zooTick is the server's unit of time.
const zooTick = 500 * time.Millisecond

var zooKeeper = &service{
	name: "zookeeper",
	start: func(b *testing.B) string {
		return testserver.NewZooKeeper(b, testserver.ZooKeeperConfig{
			TickTime: zooTick,
			Extra:    map[string]string{"maxSessionTimeout": "3600000"}, // 20 ticks otherwise
		}).Addrs()[0]
	},
	open: func(address string, ttl time.Duration, dial dialFunc) (store.Store, error) {
		return zookeeper.Open(zookeeper.Config{Servers: []string{address}, TTL: ttl, Dial: dial})
	},
	talk:    func(m *metered) conversation { return &zooTalk{metered: m} },
	connect: func(b *testing.B, address string, dial dialFunc) plain { return zooPlain{zooConnect(b, address, dial)} },
	peer: peerKind{
		name: "zk.Lock",
		new: func(b *testing.B, address string, dial dialFunc) peer {
			return zooPeer{zk.NewLock(zooConnect(b, address, dial), "/lock", world)}
		},
	},
	crashes: []crash{{2 * time.Second, 2*time.Second + 2*zooTick}},
}

// world lets every client do anything, as does a store without a user.
var world = zk.WorldACL(zk.PermAll)

func zooConnect(b *testing.B, address string, dial dialFunc) *zk.Conn {
	b.Helper()
	dialer := func(network, address string, timeout time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		return dial(ctx, network, address)
	}
	conn, events, err := zk.Connect([]string{address}, ttl,
		zk.WithDialer(dialer), zk.WithLogger(log.New(io.Discard, "", 0)))
	require.NoError(b, err)
	b.Cleanup(func() {
		conn.Close()
		for range events { // until the connection has ended
		}
	})
	_, _, err = conn.Exists("/") // waits for the session
	require.NoError(b, err)
	return conn
}

// zooPlain makes ephemeral nodes. The client takes no context.
type zooPlain struct{ conn *zk.Conn }

func (p zooPlain) create(_ context.Context, key, value string) error {
	_, err := p.conn.Create("/"+key, []byte(value), zk.FlagEphemeral, world)
	return err
}

func (p zooPlain) delete(_ context.Context, key string) error { return p.conn.Delete("/"+key, -1) }

// watch implements plain. A watch says that a node was created. Its value has to be read.
func (p zooPlain) watch(_ context.Context, key string) (<-chan told, error) {
	_, _, fired, err := p.conn.ExistsW("/" + key)
	if err != nil {
		return nil, err
	}
	known := make(chan told, 1)
	go func() {
		var value []byte
		event := <-fired
		err := event.Err
		if err == nil && event.Type != zk.EventNodeDeleted {
			value, _, err = p.conn.Get("/" + key)
		}
		known <- told{time.Now(), string(value), err}
	}()
	return known, nil
}

// enter implements plain. It takes a second request, since the answer to a creation has only the node's own name.
func (p zooPlain) enter(context.Context) (string, error) {
	path, err := p.conn.Create("/entry", nil, zk.FlagEphemeralSequential, world)
	if err != nil {
		return "", err
	}
	_, _, err = p.conn.Exists(path)
	return path[1:], err
}

type zooPeer struct{ *zk.Lock }

func (p zooPeer) lock(context.Context) error   { return p.Lock.Lock() }
func (p zooPeer) unlock(context.Context) error { return p.Unlock() }

// zooTalk parses ZooKeeper's messages: a length of four bytes, then as many bytes, which begin with the number of the
// request. The answer has the same number. The first message of each side opens the session and has another format.
type zooTalk struct {
	*metered
	out, in         []byte // the beginning of a message that is not complete
	opened, greeted bool
}

// Numbers of messages that are no requests.
const (
	zooNotification = ^uint32(0)     // -1
	zooPing         = ^uint32(0) - 1 // -2
)

func (t *zooTalk) sent(p []byte) {
	t.out = zooCut(append(t.out, p...), func(number uint32) {
		switch {
		case !t.opened:
			t.opened = true
		case number == zooPing:
			t.noted()
		default:
			t.asked(uint64(number))
		}
	})
}

func (t *zooTalk) received(p []byte) {
	t.in = zooCut(append(t.in, p...), func(number uint32) {
		switch {
		case !t.greeted:
			t.greeted = true
		case number == zooNotification:
			t.notified()
		default:
			t.answered(uint64(number))
		}
	})
}

// zooCut calls each with the number of every complete message, and returns the rest.
func zooCut(buffer []byte, each func(number uint32)) []byte {
	const length, number = 4, 4
	for len(buffer) >= length+number {
		end := length + int(binary.BigEndian.Uint32(buffer))
		if len(buffer) < end {
			break
		}
		each(binary.BigEndian.Uint32(buffer[length:]))
		buffer = buffer[end:]
	}
	return buffer
}
