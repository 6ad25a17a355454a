package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/go-leadership/leadership/store"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// revisions is the highest revision that the cluster is known to have reached. A cluster that is restored goes back
// (TestRestored).
type revisions struct {
	cluster uint64 // the id of the cluster
	floor   int64  // the highest revision seen

	history context.Context // ends when the cluster is known to have gone back; nil before the first session
	end     context.CancelCauseFunc
}

// history returns a context that ends when the cluster is known to have gone back: what was read and written before might
// not have happened.
func (d *driver) history() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := &d.revisions
	if r.history == nil {
		r.history, r.end = context.WithCancelCause(context.Background())
	}
	return r.history
}

// errRestored is why a session is given up: a rival might lead with what the restored cluster has.
var errRestored = errors.New("the cluster was restored to an earlier state")

// now reads the cluster's revision. Each user may read the prefix.
func (d *driver) now(ctx context.Context) (revision int64, err error) {
	_, revision, err = d.read(ctx, nil, clientv3.OpGet(d.config.Prefix+"/", clientv3.WithCountOnly()))
	return revision, err
}

// read reads in one transaction. It returns what each get found, and the revision of the answer; nothing if the conditions
// do not hold. A member answers a read once it has applied all that the cluster had committed when the read came, which a
// quorum confirms. So no answer is older than what was seen before the request was sent, unless the cluster was restored.
func (d *driver) read(ctx context.Context, conditions []clientv3.Cmp, gets ...clientv3.Op,
) (found []*pb.RangeResponse, revision int64, err error) {
	resp, err := d.change(ctx, conditions, gets...)
	if err != nil {
		return nil, 0, err
	}
	return ranges(resp), resp.Header.Revision, nil
}

// ranges returns what the gets of a transaction have found.
func ranges(resp *clientv3.TxnResponse) (found []*pb.RangeResponse) {
	for _, r := range resp.Responses {
		found = append(found, r.GetResponseRange())
	}
	return found
}

// change sends a transaction, and checks that the answer is one (TestAnswerInParts). If the conditions don't hold, the caller
// reads why. etcd can read in the same request, but that makes each change a twelfth slower.
func (d *driver) change(ctx context.Context, conditions []clientv3.Cmp, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	known := d.known()
	resp, err := request(ctx, d, func(ctx context.Context, client *clientv3.Client) (*clientv3.TxnResponse, error) {
		return clientv3.NewKV(client).Txn(ctx).If(conditions...).Then(ops...).Commit()
	})
	switch {
	case err != nil:
		return nil, err
	case resp.Header == nil || resp.Succeeded && len(resp.Responses) != len(ops):
		return nil, errMalformed
	case !ops[0].IsSerializable():
		d.saw(known.floor, resp.Header)
	case resp.Header.Revision < known.floor, resp.Header.ClusterId != known.cluster: // which proves nothing of the cluster
		return nil, errBehind
	}
	return resp, nil
}

// errBehind is the error of a request that one member alone has answered, if that lags behind, or is of another cluster.
var errBehind = fmt.Errorf("%w: a member of the cluster lags behind", store.ErrUnavailable)

// errMalformed says that what has answered is no etcd, such as a gateway that leaves parts of the answer out.
var errMalformed = fmt.Errorf("%w: parts are missing in the answer", store.ErrUnknownOutcome)

// first returns the first key that a get has found, or nil.
func first(r *pb.RangeResponse) *mvccpb.KeyValue {
	if kvs := r.GetKvs(); len(kvs) > 0 {
		return kvs[0]
	}
	return nil
}

func (d *driver) known() revisions {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.revisions
}

// raise notes a revision that a watch has told of.
func (d *driver) raise(revision int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.revisions.floor = max(d.revisions.floor, revision)
}

// saw notes the revision of an answer. The floor is from before the request was sent: a lower revision proves that the
// cluster was restored, which ends the history. A cluster that was made of a snapshot might show only by another id. saw logs
// both. If others have written so much since the restore that the cluster has reached the floor, saw does not notice; then
// the read of the own ballot does, when it is watched anew.
func (d *driver) saw(floor int64, header *pb.ResponseHeader) {
	d.mu.Lock()
	r := &d.revisions
	before := r.cluster
	r.cluster = cmp.Or(header.ClusterId, before) // some gateways leave it out, and the revision
	renamed := before != 0 && r.cluster != before
	back := 0 < header.Revision && header.Revision < floor && floor <= r.floor // else another request has noticed
	if back {
		if r.history != nil {
			r.end(errRestored)
		}
		r.history, r.floor = nil, header.Revision
	}
	r.floor = max(r.floor, header.Revision)
	d.mu.Unlock()
	if back || renamed {
		d.life.Warn(d.config.Logger, "the cluster has gone back or has another id: was it restored?",
			"revision before", floor, "revision", header.Revision, "id before", before, "id", header.ClusterId)
	}
}
