package etcd_test

import (
	"context"
	"log"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/etcd"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// save writes a key of the leader's data, if the leader's ballot stands.
func save(ctx context.Context, client *clientv3.Client, ballot store.Ballot, key, value string) error {
	stands, err := etcd.Fence(ballot)
	if err != nil {
		return err
	}
	resp, err := client.Txn(ctx).If(stands).Then(clientv3.OpPut(key, value)).Commit()
	if err == nil && !resp.Succeeded {
		err = leadership.ErrLost // nothing was written
	}
	return err
}

// A leader writes to the cluster that elects it.
func ExampleFence() {
	st, err := etcd.Open(etcd.Config{Endpoints: []string{"10.0.0.1:2379"}})
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"10.0.0.1:2379"}}) // the program's own
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	c, err := leadership.NewCandidate(st, "database/primary", "dbhost2:4567", nil)
	if err != nil {
		log.Fatal(err)
	}
	log.Print(c.Run(context.Background(), func(ctx context.Context, term *leadership.Term) error {
		return save(ctx, client, term.Ballot(), "database/settings", "on dbhost2")
	}))
}
