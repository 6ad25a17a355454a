package zookeeper_test

import (
	"context"
	"log"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store/zookeeper"
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
