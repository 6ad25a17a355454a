package etcd

import (
	"context"
	"strings"

	"github.com/go-leadership/leadership/internal/adapter"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// findAll shows the engine all ballots of the session after a restore that the driver has noticed. A cluster that is
// restored from a snapshot has the ballots again that were withdrawn since. One of a session that lives stands in the way
// of all behind it for as long as that session is renewed. Only its own store knows that it was withdrawn, and nothing
// else may lead that store to elections in which it does not stand any more (TestRestoredBallotIsRemoved).
//
// One call runs at a time. If another restore is noticed meanwhile, it begins anew after a pause: the endpoints might be
// those of two clusters, and then every other answer looks like one (TestEndpointsOfTwoClusters).
func (d *driver) findAll() {
	ctx := d.life.Background
	for retries := (adapter.Retries{}); ; retries.Pause(ctx) {
		d.mu.Lock()
		restores, lease := d.revisions.restores, d.lease
		d.mu.Unlock()
		if lease != 0 {
			d.findOf(ctx, leaseName(lease))
		}
		d.mu.Lock()
		done := d.revisions.restores == restores || ctx.Err() != nil
		d.revisions.searching = !done
		d.mu.Unlock()
		if done {
			return
		}
	}
}

// findOf shows the engine all ballots of one session.
func (d *driver) findOf(ctx context.Context, session string) {
	prefix := d.config.Prefix + "/"
	all := clientv3.OpGet(prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	found, _, err := d.read(ctx, nil, all)
	for retries := (adapter.Retries{}); adapter.Uncertain(err) && ctx.Err() == nil; {
		retries.Pause(ctx)
		found, _, err = d.read(ctx, nil, all)
	}
	if err != nil {
		return
	}
	for _, kv := range found[0].Kvs {
		election, name, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), prefix), "/_ballots/")
		if nonce, ours := strings.CutPrefix(name, session+"-"); ours {
			if d.found != nil {
				d.found(session, election, nonce)
			}
		}
	}
}
