package channels_test

import (
	"fmt"
	"log"

	"github.com/go-leadership/leadership/channels"
	"github.com/go-leadership/leadership/store/memory"
)

// The first channel carries true when a term begins, and false when it ends.
func ExampleCandidate_RunForElection() {
	st, err := memory.Open(memory.NewService(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	c, err := channels.NewCandidate(st, "database/primary", "dbhost2:4567", nil)
	if err != nil {
		log.Fatal(err)
	}
	elected, errs := c.RunForElection()
	for leads := range elected {
		fmt.Println("leads:", leads)
		if leads {
			c.Stop() // closes both channels
		}
	}
	for err := range errs {
		fmt.Println(err)
	}
	// Output:
	// leads: false
	// leads: true
	// leads: false
}

func ExampleFollower_FollowElection() {
	st, err := memory.Open(memory.NewService(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	c, err := channels.NewCandidate(st, "database/primary", "dbhost2:4567", nil)
	if err != nil {
		log.Fatal(err)
	}
	f, err := channels.NewFollower(st, "database/primary", nil)
	if err != nil {
		log.Fatal(err)
	}
	leaders, _ := f.FollowElection()
	fmt.Println((<-leaders).Revision) // 0: there is no leader yet
	c.RunForElection()
	fmt.Println((<-leaders).Value)
	f.Stop()
	c.Stop()
	<-f.Done()
	<-c.Done()
	// Output:
	// 0
	// dbhost2:4567
}
