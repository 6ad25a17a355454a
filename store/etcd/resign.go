package etcd

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/go-leadership/leadership/internal/redact"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// RequestResignation implements engine.Driver. The mark is a version above 1: the ballot's key is put again as it is,
// with its value and its lease, which nothing else does. No other key is touched (TestOnlyTheBallotOfTheTokenIsMarked).
func (d *driver) RequestResignation(ctx context.Context, election string, token uint64) error {
	created := int64(min(token, math.MaxInt64))
	if created == 0 {
		return nil // to etcd it would mean any revision
	}
	found, err := d.ballots(ctx, election, 0, clientv3.WithMinCreateRev(created), clientv3.WithMaxCreateRev(created))
	if err != nil || len(found) == 0 {
		return err
	}
	ballot := found[0] // a session creates one key in a transaction
	if isForeign(ballot) {
		return fmt.Errorf("%w: the candidate %q uses concurrency.Election, which takes no requests to resign",
			errors.ErrUnsupported, redact.Shorten(string(ballot.Value)))
	}
	key := string(ballot.Key)
	_, err = d.change(ctx, []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", created)},
		clientv3.OpPut(key, "", clientv3.WithIgnoreValue(), clientv3.WithIgnoreLease()))
	return err
}
