package etcd

import (
	"context"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Clear implements store.Clearer. Without a name it deletes all keys that begin with <prefix>/.
func (s *Store) Clear(ctx context.Context, election string) error {
	ops := []clientv3.Op{clientv3.OpDelete(s.config.Prefix+"/", clientv3.WithPrefix())}
	if election != "" {
		if err := store.CheckElection(election); err != nil {
			return err
		}
		ops = []clientv3.Op{
			clientv3.OpDelete(s.layout.ack(election)),
			clientv3.OpDelete(s.layout.dir(election), clientv3.WithPrefix()),
		}
	}
	_, err := adapter.Repeat(ctx, s.life, "clear", election, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return s.txn(ctx, nil, ops, nil)
	})
	return err
}
