package etcd

import (
	"context"

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
			clientv3.OpDelete(s.layout.ballots(election), clientv3.WithPrefix()),
		}
	}
	ctx, done, err := s.call(ctx)
	if err != nil {
		return s.fail("clear", election, err)
	}
	defer done()
	for {
		_, err := s.txn(ctx, nil, ops, nil)
		if err == nil || ctx.Err() != nil || !uncertain(err) {
			return s.fail("clear", election, err)
		}
		s.pause(ctx)
	}
}
