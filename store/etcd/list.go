package etcd

import (
	"context"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// page is how many keys one request of a list reads.
const page = 1000

// Elections implements engine.Driver. It reads keys without values, page by page. The rest of a long queue is left out:
// the next page begins behind the queue.
func (d *driver) Elections(ctx context.Context) (names []string, err error) {
	root := d.config.Prefix + "/"
	for from := root; ; {
		found, _, err := d.read(ctx, nil, clientv3.OpGet(from,
			clientv3.WithRange(clientv3.GetPrefixRangeEnd(root)), clientv3.WithKeysOnly(), clientv3.WithLimit(page)))
		if err != nil {
			return nil, err
		}
		for _, kv := range found[0].Kvs {
			from = string(kv.Key) + "\x00"
			if name, _, ok := strings.Cut(strings.TrimPrefix(from, root), "/_ballots/"); ok {
				names = append(names, name)
				from = clientv3.GetPrefixRangeEnd(root + name + "/_ballots/")
			}
		}
		if !found[0].More || len(found[0].Kvs) == 0 {
			return names, nil
		}
	}
}
