package leadership_test

import (
	"context"
	"fmt"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
)

// follower returns a follower of the election "x".
func follower(st store.Store) *leadership.Follower {
	f, err := leadership.NewFollower(st, "x", nil)
	must(err)
	return f
}

func ExampleFollower_FollowElection() {
	st := open()
	defer st.Close()
	f := follower(st)
	leaders, errs := f.FollowElection()
	fmt.Printf("%q\n", <-leaders) // no leader yet
	term := lead(st, "a")
	fmt.Printf("%q\n", <-leaders)
	must(term.Withdraw(context.Background()))
	fmt.Printf("%q\n", <-leaders)
	f.Stop() // closes both channels
	for err := range errs {
		fmt.Println(err)
	}
	// Output:
	// ""
	// "a"
	// ""
}

func ExampleFollower_Wait() {
	st := open()
	defer st.Close()
	f := follower(st)
	defer f.Stop()
	c := candidate(st, "10.0.0.7:80", nil)
	c.RunForElection()
	defer c.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	leader, err := f.Wait(ctx)
	fmt.Println(leader.Value, err)
	// Output: 10.0.0.7:80 <nil>
}

func ExampleFollower_Changes() {
	st := open()
	defer st.Close()
	f := follower(st)
	defer f.Stop()
	var term *leadership.Term
	for leader := range f.Changes(context.Background()) {
		switch {
		case leader.Revision != 0:
			fmt.Println("leader:", leader.Value)
			must(term.Withdraw(context.Background()))
		case term == nil:
			fmt.Println("no leader yet")
			term = lead(st, "a")
		default:
			fmt.Println("the leader is gone")
			return
		}
	}
	// Output:
	// no leader yet
	// leader: a
	// the leader is gone
}

func ExampleFollower_OnNewLeader() {
	st := open()
	defer st.Close()
	term := lead(st, "a")
	f := follower(st)
	came, went := make(chan struct{}), make(chan struct{})
	f.OnNewLeader(func(_ context.Context, leader leadership.Leader) {
		fmt.Println("leader:", leader.Value)
		close(came)
	})
	f.OnLeaderGone(func(context.Context) {
		fmt.Println("the leader is gone")
		close(went)
	})
	f.Start()
	<-came
	must(term.Withdraw(context.Background()))
	<-went
	f.Stop()
	// Output:
	// leader: a
	// the leader is gone
}

// Leader answers at once, from what the follower knows. Fresh says whether that has been confirmed lately.
func ExampleFollower_Leader() {
	st := open()
	defer st.Close()
	f := follower(st)
	defer f.Stop()
	_, ok := f.Leader()
	fmt.Println(ok, "fresh:", f.Fresh())
	term := lead(st, "a")
	_, err := f.Wait(context.Background())
	must(err)
	leader, ok := f.Leader()
	fmt.Println(ok, "fresh:", f.Fresh(), "leader:", leader.Value)
	must(term.Withdraw(context.Background()))
	// Output:
	// false fresh: false
	// true fresh: true leader: a
}
