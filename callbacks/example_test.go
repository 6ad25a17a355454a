package callbacks_test

import (
	"context"
	"fmt"
	"log"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/callbacks"
	"github.com/go-leadership/leadership/store/memory"
)

func ExampleRun() {
	st, err := memory.Open(memory.NewService(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	c, err := leadership.NewCandidate(st, "database/primary", "dbhost2:4567", nil)
	if err != nil {
		log.Fatal(err)
	}
	f, err := leadership.NewFollower(st, "database/primary", nil)
	if err != nil {
		log.Fatal(err)
	}
	go callbacks.Follow(context.Background(), f, callbacks.Follower{
		NewLeader: func(_ context.Context, leader leadership.Leader) {
			fmt.Println("connecting to", leader.Value)
			c.Stop() // enough for an example
		},
	})
	err = callbacks.Run(context.Background(), c, callbacks.Candidate{
		Won:   func(context.Context, *leadership.Term) error { fmt.Println("becoming primary"); return nil },
		Ended: func(_ *leadership.Term, cause error) { fmt.Println("becoming standby:", cause) },
	})
	fmt.Println(err)
	f.Stop()
	<-f.Done()
	// Output:
	// becoming primary
	// connecting to dbhost2:4567
	// becoming standby: stopped
	// <nil>
}
