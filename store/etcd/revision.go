package etcd

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/go-leadership/leadership/store"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// revisions is how far the cluster is known to have come.
type revisions struct {
	cluster   uint64    // the id of the cluster
	floor     int64     // the highest revision seen
	backSince time.Time // since when only lower ones are read; zero while they are not
}

// get reads. What it returns is not older than anything that was seen before it was sent: one member may lag behind
// another, or wake from a pause. But if all that is read for long is too old, the cluster has been restored to the
// past, and there is nothing else to go by.
func (d *driver) get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	floor := d.floor()
	resp, err := request(ctx, d, func(ctx context.Context, client *clientv3.Client) (*clientv3.GetResponse, error) {
		return clientv3.NewKV(client).Get(ctx, key, opts...)
	})
	if err != nil {
		return nil, err
	}
	return resp, d.sawRead(floor, resp.Header)
}

// look reads in one transaction, as get does: it writes nothing, so that it does not go through the cluster's log.
func (d *driver) look(ctx context.Context, conditions []clientv3.Cmp, then, or []clientv3.Op) (*clientv3.TxnResponse, error) {
	floor := d.floor()
	resp, err := d.commit(ctx, conditions, then, or)
	if err != nil {
		return nil, err
	}
	return resp, d.sawRead(floor, resp.Header)
}

// read returns what is at each of the keys, nil if there is nothing, all at the revision returned.
func (d *driver) read(ctx context.Context, keys ...string) (found []*mvccpb.KeyValue, revision int64, err error) {
	if len(keys) == 1 {
		resp, err := d.get(ctx, keys[0])
		if err != nil {
			return nil, 0, err
		}
		return []*mvccpb.KeyValue{first(resp.Kvs)}, resp.Header.Revision, nil
	}
	var gets []clientv3.Op
	for _, key := range keys {
		gets = append(gets, clientv3.OpGet(key))
	}
	resp, err := d.look(ctx, nil, gets, nil)
	if err != nil {
		return nil, 0, err
	}
	for _, r := range resp.Responses {
		found = append(found, first(r.GetResponseRange().Kvs))
	}
	return found, resp.Header.Revision, nil
}

func first(kvs []*mvccpb.KeyValue) *mvccpb.KeyValue {
	if len(kvs) == 0 {
		return nil
	}
	return kvs[0]
}

// sawRead returns an error if the answer to a read is not to be used.
func (d *driver) sawRead(floor int64, header *pb.ResponseHeader) error {
	if header == nil {
		return errMalformed
	}
	d.sawCluster(header.ClusterId)
	if !d.saw(floor, header.Revision, false) {
		return errBehind
	}
	return nil
}

// sawCluster notices a cluster that was made of a snapshot: it has another id.
func (d *driver) sawCluster(id uint64) {
	d.mu.Lock()
	before := d.revisions.cluster
	d.revisions.cluster = cmp.Or(id, before) // some gateways leave it out
	d.mu.Unlock()
	if before != 0 && id != 0 && before != id {
		d.config.Logger.Warn("the cluster is another one", "store", d.life.Name, "from", before, "to", id)
		d.life.Go(d.findAll)
	}
}

// errBehind says that a member has not come as far as another one that we have seen.
var errBehind = fmt.Errorf("%w: a member of the cluster lags behind", store.ErrUnavailable)

// txn writes: then, if the conditions hold, and otherwise what is in or else. It goes through the cluster's log, so
// that a revision which is too low is proof of a restored cluster.
func (d *driver) txn(ctx context.Context, conditions []clientv3.Cmp, then, or []clientv3.Op) (*clientv3.TxnResponse, error) {
	floor := d.floor()
	resp, err := d.commit(ctx, conditions, then, or)
	if err != nil {
		return nil, err
	}
	if resp.Header == nil {
		return nil, errMalformed
	}
	d.saw(floor, resp.Header.Revision, true)
	return resp, nil
}

// commit sends a transaction, and checks that the answer is one.
func (d *driver) commit(ctx context.Context, conditions []clientv3.Cmp, then, or []clientv3.Op) (*clientv3.TxnResponse, error) {
	resp, err := request(ctx, d, func(ctx context.Context, client *clientv3.Client) (*clientv3.TxnResponse, error) {
		return clientv3.NewKV(client).Txn(ctx).If(conditions...).Then(then...).Else(or...).Commit()
	})
	if err != nil {
		return nil, err
	}
	asked := then
	if !resp.Succeeded {
		asked = or
	}
	if !answered(asked, resp.Responses) {
		return nil, errMalformed
	}
	return resp, nil
}

// errMalformed says that what has answered is no etcd, such as a gateway that leaves parts of the answer out.
var errMalformed = fmt.Errorf("%w: parts are missing in the answer", store.ErrUnknownOutcome)

// answered reports whether there is a result for each operation of a transaction.
func answered(ops []clientv3.Op, results []*pb.ResponseOp) bool {
	if len(results) != len(ops) {
		return false
	}
	for i, op := range ops {
		if op.IsGet() && results[i].GetResponseRange() == nil {
			return false
		}
	}
	return true
}

func (d *driver) floor() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.revisions.floor
}

// raise notes a revision that a watch has told of.
func (d *driver) raise(revision int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.revisions.raise(revision)
}

func (r *revisions) raise(revision int64) {
	if revision >= r.floor {
		r.floor, r.backSince = revision, time.Time{}
	}
}

// saw reports whether a revision may be used that was seen in answer to a request; the floor is that from before it.
func (d *driver) saw(floor, revision int64, written bool) bool {
	d.mu.Lock()
	r := &d.revisions
	if revision >= floor {
		r.raise(revision)
		d.mu.Unlock()
		return true
	}
	if r.backSince.IsZero() {
		r.backSince = time.Now()
	}
	// If the floor has gone back since, others have found out already.
	restored := r.floor >= floor && (written || time.Since(r.backSince) >= d.long())
	if restored {
		r.floor, r.backSince = revision, time.Time{}
	}
	d.mu.Unlock()
	if restored {
		d.config.Logger.Warn("the cluster has gone back", "store", d.life.Name, "from", floor, "to", revision)
		d.life.Go(d.findAll)
	}
	return restored
}
