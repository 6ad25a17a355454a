package etcd

import (
	"context"
	"math"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// RequestResignation implements engine.Resigner. The mark is a version above 1: the ballot's key is put again as it is,
// with its value and its lease, which nothing else does.
func (d *driver) RequestResignation(ctx context.Context, election string, token uint64) error {
	created := int64(min(token, math.MaxInt64))
	if created == 0 {
		return nil // to etcd it would mean any revision
	}
	dir := d.layout.dir(election)
	resp, err := d.get(ctx, dir, clientv3.WithPrefix(), clientv3.WithMinCreateRev(created), clientv3.WithMaxCreateRev(created))
	if err != nil {
		return err
	}
	for _, kv := range resp.Kvs {
		if !isBallot(dir, kv) {
			continue
		}
		key := string(kv.Key)
		_, err := d.txn(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", created)},
			[]clientv3.Op{clientv3.OpPut(key, "", clientv3.WithIgnoreValue(), clientv3.WithIgnoreLease())}, nil)
		return err
	}
	return nil
}
