package bench

import (
	"context"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

var etcdService = &service{
	name:  "etcd",
	start: func(b *testing.B) string { return testserver.NewEtcd(b, testserver.EtcdConfig{}).Addrs()[0] },
	open: func(address string, ttl time.Duration, dial dialFunc) (store.Store, error) {
		return etcd.Open(etcd.Config{Endpoints: []string{address}, TTL: ttl, Dial: dial})
	},
	talk: func(m *metered) conversation { return newEtcdTalk(m) },
	connect: func(b *testing.B, address string, dial dialFunc) plain {
		return &etcdPlain{client: etcdConnect(b, address, dial)}
	},
	peer: peerKind{
		name: "concurrency.Election",
		new:  newEtcdPeer,
		// It watches from an old revision, and the server serves such watches in a loop that runs every 100 ms. A hand-over
		// before that takes the rest of the 100 ms.
		rest: 150 * time.Millisecond,
	},
	crashes: []crash{{2 * time.Second, 3 * time.Second}}, // the server grants no shorter TTL
}

func etcdConnect(b *testing.B, address string, dial dialFunc) *clientv3.Client {
	b.Helper()
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{address},
		Logger:    zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dial(ctx, "tcp", address)
		})},
	})
	require.NoError(b, err)
	b.Cleanup(func() { _ = client.Close() })
	return client
}

type etcdPlain struct {
	client  *clientv3.Client
	entries int
}

func (p *etcdPlain) create(ctx context.Context, key, value string) error {
	_, err := p.client.Put(ctx, key, value)
	return err
}

func (p *etcdPlain) delete(ctx context.Context, key string) error {
	_, err := p.client.Delete(ctx, key)
	return err
}

// watch implements plain. An event has the value.
func (p *etcdPlain) watch(ctx context.Context, key string) (<-chan told, error) {
	ctx, cancel := context.WithCancel(ctx)
	changes := p.client.Watch(ctx, key, clientv3.WithCreatedNotify())
	if created := <-changes; created.Err() != nil {
		cancel()
		return nil, created.Err()
	}
	known := make(chan told, 1)
	go func() {
		defer cancel()
		change := <-changes
		t := told{at: time.Now(), err: change.Err()}
		for _, e := range change.Events {
			t.value = string(e.Kv.Value)
		}
		known <- t
	}()
	return known, nil
}

// enter implements plain.
func (p *etcdPlain) enter(ctx context.Context) (string, error) {
	p.entries++
	key := "entry/" + strconv.Itoa(p.entries)
	_, err := p.client.Txn(ctx).Then(clientv3.OpPut(key, ""), clientv3.OpGet("entry/", clientv3.WithPrefix())).Commit()
	return key, err
}

type etcdPeer struct{ *concurrency.Election }

func newEtcdPeer(b *testing.B, address string, dial dialFunc) peer {
	session, err := concurrency.NewSession(etcdConnect(b, address, dial))
	require.NoError(b, err)
	b.Cleanup(func() { _ = session.Close() })
	return etcdPeer{concurrency.NewElection(session, "election")}
}

func (p etcdPeer) lock(ctx context.Context) error   { return p.Campaign(ctx, "") }
func (p etcdPeer) unlock(ctx context.Context) error { return p.Resign(ctx) }
