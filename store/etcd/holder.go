package etcd

import (
	"context"
	"fmt"
	"strconv"

	"github.com/go-leadership/leadership/internal/opaque"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// mayReplace returns nil if what is at the acknowledgement's key can't be that of a leader: no lease holds it, or one
// that has or had a ballot in this queue. Any other lease belongs to a program that might lead without a ballot. Its
// key goes with it, so that nothing has to be replaced once it is over. Then the error names it.
func (b *ballot) mayReplace(ctx context.Context, found *mvccpb.KeyValue) error {
	s := b.store
	if found.Lease == 0 || found.Lease == b.session.id {
		return nil
	}
	for _, p := range b.predecessors {
		if p.lease == found.Lease {
			return nil
		}
	}
	resp, err := s.get(ctx, s.layout.dir(b.Election), clientv3.WithPrefix())
	if err != nil {
		return err
	}
	for _, p := range b.queue(resp.Kvs) {
		if p.lease == found.Lease { // it stands again, behind this one
			return nil
		}
	}
	return fmt.Errorf("lease %s, which holds the key %q with the value %q, has no ballot in this queue: another program leads, "+
		"or the key is left over", strconv.FormatInt(found.Lease, 16), found.Key, opaque.Shorten(string(found.Value)))
}
