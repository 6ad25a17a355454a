package store_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-leadership/leadership/store"
	_ "github.com/go-leadership/leadership/store/memory" // registers memory://
)

// A store is chosen by its URL; the store's package is imported for its scheme. What a store does is seldom called
// directly: leadership.NewCandidate and leadership.NewFollower are made from it.
func ExampleOpen() {
	ctx := context.Background()
	st, err := store.Open(ctx, "memory://example-open?ttl=5s", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer st.Close()

	ballot, err := st.Cast(ctx, "database/primary", "dbhost2:4567")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := ballot.Wait(ctx); err != nil { // until it is first in line
		fmt.Println(err)
		return
	}
	if _, err := ballot.Acknowledge(ctx, "dbhost2:4567"); err != nil {
		fmt.Println(err)
		return
	}
	known, err := st.Observe(ctx, "database/primary", nil)
	fmt.Println(known.Leader.Value, err)
	// Output: dbhost2:4567 <nil>
}

// A wrong URL is refused at once, with what is wrong with it.
func ExampleOpen_refused() {
	_, err := store.Open(context.Background(), "memory://example-open?tll=5s", nil)
	fmt.Println(err)
	fmt.Println(errors.Is(err, store.ErrInvalid), store.Permanent(err))
	// Output:
	// invalid memory URL: unknown option "tll"; it knows grace, ttl
	// true true
}

// The author of a store gets the URL parsed, and asks it for the store's options.
func ExampleParseURL() {
	u, err := store.ParseURL("zookeeper://admin:pass%2Fword@10.0.0.1:2181,[::1]:2181/prod?ttl=10s")
	if err != nil {
		fmt.Println(err)
		return
	}
	user, _ := u.Login()
	fmt.Println(user, u.Hosts, u.Path)
	fmt.Println(u.Duration("ttl", time.Minute), u.Duration("grace", time.Second))
	fmt.Println(u.Check()) // anything that was not read?
	fmt.Println(u)         // without the password
	// Output:
	// admin [10.0.0.1:2181 [::1]:2181] prod
	// 10s 1s
	// <nil>
	// zookeeper://10.0.0.1:2181,[::1]:2181/prod
}

// A name that one store takes is taken by all of them, and no two names ever meet.
func ExampleCheckElection() {
	for _, name := range []string{"database/primary", "東京", "a__b", "a/_ballots"} {
		fmt.Println(name, store.CheckElection(name))
	}
	// Output:
	// database/primary <nil>
	// 東京 <nil>
	// a__b invalid election "a__b": "__" stands for "/" in the ZooKeeper layout
	// a/_ballots invalid election "a/_ballots": a part begins with "_", which stores keep for themselves
}
