package zookeeper_test

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/go-zookeeper/zk"
)

func ExampleOpen() {
	st, err := zookeeper.Open(zookeeper.Config{
		Servers: []string{"10.0.0.1", "10.0.0.2", "10.0.0.3:2182"},
		Chroot:  "/prod",
		TTL:     10 * time.Second,
	})
	if err != nil {
		log.Fatal(err) // a setting; it does not wait for the servers
	}
	defer st.Close()
	c, err := leadership.NewCandidate(st, "database/primary", "dbhost2:4567", nil)
	if err != nil {
		log.Fatal(err)
	}
	log.Print(c.Run(context.Background(), leadership.Lead))
}

// save writes a node of the leader's data, if the leader's ballot stands.
func save(conn *zk.Conn, ballot store.Ballot, path, value string) error {
	stands, err := zookeeper.Fence(ballot)
	if err != nil {
		return err
	}
	results, err := conn.Multi(stands, &zk.SetDataRequest{Path: path, Data: []byte(value), Version: -1})
	if len(results) > 0 && errors.Is(results[0].Error, zk.ErrNoNode) {
		err = leadership.ErrLost // nothing was written
	}
	return err
}

// A leader writes to the ensemble that elects it.
func ExampleFence() {
	st, err := zookeeper.Open(zookeeper.Config{Servers: []string{"10.0.0.1"}})
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	conn, _, err := zk.Connect([]string{"10.0.0.1"}, 10*time.Second) // the program's own
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	c, err := leadership.NewCandidate(st, "database/primary", "dbhost2:4567", nil)
	if err != nil {
		log.Fatal(err)
	}
	log.Print(c.Run(context.Background(), func(_ context.Context, term *leadership.Term) error {
		return save(conn, term.Ballot(), "/database/settings", "on dbhost2")
	}))
}
