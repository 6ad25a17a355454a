package etcd

import (
	"context"

	"github.com/go-leadership/leadership/store"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Save is save of the example of Fence, so that its own code is tested.
var Save func(ctx context.Context, client *clientv3.Client, ballot store.Ballot, key, value string) error
