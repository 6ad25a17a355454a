package consul

import (
	"context"
	"strings"
)

// Elections implements engine.Driver. The agent answers with one name for all ballots of an election. As in Ballots, an
// empty answer is checked by the read of a key.
func (d *driver) Elections(ctx context.Context) (names []string, err error) {
	root := d.layout.prefix + "/"
	keys, err := d.client.Keys(ctx, root, "/_")
	if err == nil && len(keys) == 0 {
		_, err = d.client.Get(ctx, root)
	}
	for _, key := range keys {
		if name, ok := strings.CutSuffix(strings.TrimPrefix(key, root), "/_"); ok {
			names = append(names, name)
		}
	}
	return names, err
}
