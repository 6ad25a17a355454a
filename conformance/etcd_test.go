package conformance_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// onEtcd is the harness of a real etcd.
func onEtcd(t *testing.T, srv *testserver.Etcd) conformance.Harness {
	const ttl = 3 * time.Second
	operator, err := clientv3.New(clientv3.Config{Endpoints: srv.Addrs(), Logger: zap.NewNop()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = operator.Close() })
	return conformance.Harness{
		Open: func(_ context.Context, dial conformance.DialFunc) (store.Store, error) {
			return etcd.Open(etcd.Config{Endpoints: srv.Addrs(), TTL: ttl, Dial: dial})
		},
		Clear: func(ctx context.Context, election string) error {
			_, err := operator.Delete(ctx, "leadership/"+election, clientv3.WithPrefix())
			return err
		},
		TTL:    ttl,
		Expiry: ttl + time.Second,
	}
}

func TestEtcd(t *testing.T) {
	conformance.Run(t, onEtcd(t, testserver.NewEtcd(t, testserver.EtcdConfig{})))
}

func TestEtcdCluster(t *testing.T) {
	srv := testserver.NewEtcd(t, testserver.EtcdConfig{Members: 3})
	runDisturbed(t, srv, onEtcd(t, srv))
}
