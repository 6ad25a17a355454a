package etcd

import (
	"strings"

	"github.com/go-leadership/leadership/internal/adapter"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// findAll shows the engine all ballots of the session after a restore that the driver has noticed. A cluster that is
// restored from a snapshot has the ballots again that were withdrawn since. One of a session that lives stands in the way
// of all behind it for as long as that session is renewed. Only its own store knows that it was withdrawn, and nothing
// else may lead that store to elections in which it does not stand any more (TestRestoredBallotIsRemoved).
func (d *driver) findAll() {
	d.mu.Lock()
	lease := d.lease
	d.mu.Unlock()
	if lease == 0 {
		return
	}
	ctx, prefix := d.life.Background, d.config.Prefix+"/"
	all := clientv3.OpGet(prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	found, _, err := d.look(ctx, nil, all)
	for adapter.Uncertain(err) && ctx.Err() == nil {
		adapter.Pause(ctx)
		found, _, err = d.look(ctx, nil, all)
	}
	if err != nil {
		return
	}
	for _, kv := range found[0].Kvs {
		election, name, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), prefix), "/_ballots/")
		if nonce, ours := strings.CutPrefix(name, leaseName(lease)+"-"); ours {
			d.found(leaseName(lease), election, nonce)
		}
	}
}
