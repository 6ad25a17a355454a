package consul_test

import (
	"context"
	"fmt"
	"log"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/hashicorp/consul/api"
)

// save writes a key of the leader's data, if the leader's ballot stands.
func save(ctx context.Context, client *api.Client, ballot store.Ballot, key, value string) error {
	stands, err := consul.Fence(ballot)
	if err != nil {
		return err
	}
	ops := api.KVTxnOps{stands, {Verb: api.KVSet, Key: key, Value: []byte(value)}}
	done, resp, _, err := client.KV().Txn(ops, new(api.QueryOptions).WithContext(ctx))
	if err == nil && !done {
		err = fmt.Errorf("%w: %s", leadership.ErrLost, resp.Errors[0].What) // nothing was written
	}
	return err
}

// A leader writes to the datacenter that elects it.
func ExampleFence() {
	st, err := consul.Open(consul.Config{Addresses: []string{"127.0.0.1"}})
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	client, err := api.NewClient(&api.Config{Address: "127.0.0.1:8500"}) // the program's own
	if err != nil {
		log.Fatal(err)
	}
	c, err := leadership.NewCandidate(st, "database/primary", "dbhost2:4567", nil)
	if err != nil {
		log.Fatal(err)
	}
	log.Print(c.Run(context.Background(), func(ctx context.Context, term *leadership.Term) error {
		return save(ctx, client, term.Ballot(), "database/settings", "on dbhost2")
	}))
}
