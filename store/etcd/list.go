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
		kvs := found[0].Kvs
		for _, kv := range kvs {
			name, _, ok := strings.Cut(strings.TrimPrefix(string(kv.Key), root), "/_ballots/")
			if ok && (len(names) == 0 || names[len(names)-1] != name) {
				names = append(names, name)
			}
		}
		if !found[0].More || len(kvs) == 0 {
			return names, nil
		}
		from = string(kvs[len(kvs)-1].Key) + "\x00"
		if name, _, ok := strings.Cut(from, "/_ballots/"); ok {
			from = clientv3.GetPrefixRangeEnd(name + "/_ballots/")
		}
	}
}
