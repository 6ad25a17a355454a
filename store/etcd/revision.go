package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// revisions is the highest revision that the cluster is known to have reached. A member that resumes might answer with
// an old state (TestMemberPaused), and a cluster that is restored goes back (TestRestored).
type revisions struct {
	cluster   uint64    // the id of the cluster
	floor     int64     // the highest revision seen
	backSince time.Time // since when only lower ones are read; zero while they are not

	history context.Context // ends when the cluster is known to have gone back; nil before the first session
	end     context.CancelCauseFunc
}

// history returns a context that ends when the cluster is known to have gone back: what was read and written before might
// not have happened.
func (d *driver) history() context.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.revisions.current()
}

func (r *revisions) current() context.Context {
	if r.history == nil {
		r.history, r.end = context.WithCancelCause(context.Background())
	}
	return r.history
}

// errRestored is why a session is given up: a rival might lead with what the restored cluster has.
var errRestored = errors.New("the cluster was restored to an earlier state")

// settle finds out whether an answer with a revision lower than the floor comes from a member that lags behind, or from a
// cluster that was restored, which ends the history. Its transaction goes through the cluster's log since it might delete the
// key, and deletes nothing. The key is that of a ballot which the session has put: its user may write that, whatever its role
// has been denied (TestSettleNeedsNoMoreThanTheBallot). If others have written so much since the restore that
// the cluster has reached the floor, settle does not notice; then the read of the own ballot does, when it is watched anew.
func (s *session) settle(ctx context.Context, floor int64) error {
	d := s.driver
	s.mu.Lock()
	key := cmp.Or(s.put, d.layout.void(s.id, 0))
	s.mu.Unlock()
	never := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "<", 0)}
	resp, err := d.txn(ctx, never, []clientv3.Op{clientv3.OpDelete(key)})
	if err != nil {
		return err
	}
	d.saw(floor, resp.Header, true)
	return nil
}

// read reads in one transaction, which does not go through the cluster's log. It returns what each get found, and the
// revision of the answer; nothing if the conditions do not hold. An answer is not older than anything that was seen before
// the request was sent: one member might lag behind another, or wake from a pause. But if all answers are too old for long,
// the cluster has been restored to the past, and the answers are taken.
//
// If the gets are serializable, one member answers without the other members. That member might be behind, or have been
// removed, so the answer is no proof of a restored cluster.
func (d *driver) read(ctx context.Context, conditions []clientv3.Cmp, gets ...clientv3.Op,
) (found []*pb.RangeResponse, revision int64, err error) {
	known := d.known()
	resp, err := d.txn(ctx, conditions, gets)
	if err != nil {
		return nil, 0, err
	}
	if gets[0].IsSerializable() {
		if resp.Header.Revision < known.floor || known.cluster != 0 && resp.Header.ClusterId != known.cluster {
			return nil, 0, errBehind
		}
	} else if !d.saw(known.floor, resp.Header, false) {
		return nil, 0, errBehind
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

// change writes, if the conditions hold. The request goes through the cluster's log, so that a revision which is too low
// proves that the cluster was restored. If the conditions don't hold, the caller reads why. etcd can read in the same
// request, but that makes each change a twelfth slower.
func (d *driver) change(ctx context.Context, conditions []clientv3.Cmp, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	floor := d.known().floor
	resp, err := d.txn(ctx, conditions, ops)
	if err != nil {
		return nil, err
	}
	d.saw(floor, resp.Header, true)
	return resp, nil
}

// txn sends a transaction, and checks that the answer is one (TestAnswerInParts).
func (d *driver) txn(ctx context.Context, conditions []clientv3.Cmp, ops []clientv3.Op) (*clientv3.TxnResponse, error) {
	resp, err := request(ctx, d, func(ctx context.Context, client *clientv3.Client) (*clientv3.TxnResponse, error) {
		return clientv3.NewKV(client).Txn(ctx).If(conditions...).Then(ops...).Commit()
	})
	if err == nil && (resp.Header == nil || resp.Succeeded && len(resp.Responses) != len(ops)) {
		return nil, errMalformed
	}
	return resp, err
}

// errMalformed says that what has answered is no etcd, such as a gateway that leaves parts of the answer out.
var errMalformed = fmt.Errorf("%w: parts are missing in the answer", store.ErrUnknownOutcome)

// first returns the first key that a get has found, or nil.
func first(r *pb.RangeResponse) *mvccpb.KeyValue {
	if kvs := r.GetKvs(); len(kvs) > 0 {
		return kvs[0]
	}
	return nil
}

// errBehind says that a member has not come as far as another one that we have seen.
var errBehind = engine.Answered(fmt.Errorf("%w: a member of the cluster lags behind", store.ErrUnavailable))

func (d *driver) known() revisions {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.revisions
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

// saw reports whether an answer may be used; the floor is from before the request. A cluster that was made of a snapshot has
// another id, or a lower revision: saw logs both.
func (d *driver) saw(floor int64, header *pb.ResponseHeader, written bool) bool {
	d.mu.Lock()
	r := &d.revisions
	before := r.cluster
	r.cluster = cmp.Or(header.ClusterId, before) // some gateways leave it out
	renamed := before != 0 && r.cluster != before
	lower, back := header.Revision < floor, false
	switch {
	case !lower:
		r.raise(header.Revision)
	case r.backSince.IsZero():
		r.backSince = time.Now()
	}
	// If the floor has gone back since the request was sent, another request has noticed the restore.
	if lower && header.Revision > 0 && r.floor >= floor && (written || time.Since(r.backSince) >= d.long()) {
		back = true
		r.floor, r.backSince = header.Revision, time.Time{}
		r.current()
		r.end(errRestored)
		r.history = nil
	}
	d.mu.Unlock()
	if back || renamed {
		d.life.Warn(d.config.Logger, "the cluster has gone back or has another id: was it restored?",
			"revision before", floor, "revision", header.Revision, "id before", before, "id", header.ClusterId)
	}
	return !lower || back
}
