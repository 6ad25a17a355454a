package memory_test

import (
	"context"
	"fmt"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store/memory"
)

// Two candidates of one process. Each store is a session of its own, as another process would have.
func ExampleOpen() {
	ctx := context.Background()
	service := memory.NewService()
	for _, name := range []string{"one", "two"} {
		st, err := memory.Open(service, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer st.Close()
		candidate, err := leadership.NewCandidate(st, "database/primary", name, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		term, err := candidate.Campaign(ctx) // returns once it leads
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(name, "leads:", candidate.IsLeader())
		if err := term.Withdraw(ctx); err != nil {
			fmt.Println(err)
		}
		fmt.Println(name, "leads:", candidate.IsLeader())
	}
	// Output:
	// one leads: true
	// one leads: false
	// two leads: true
	// two leads: false
}

// A partition on demand: the leader can't renew its session, so its lease ends, and only then the service lets the
// next one lead. In a bubble of testing/synctest this takes no time at all: see examples/singleton.
func ExampleFaults() {
	ctx := context.Background()
	service := memory.NewService()
	config := &memory.Config{TTL: time.Second}
	a, err := memory.Open(service, config)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer a.Close()
	b, err := memory.Open(service, config)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer b.Close()

	old, _ := leadership.NewCandidate(a, "database/primary", "a", nil)
	if _, err := old.Campaign(ctx); err != nil {
		fmt.Println(err)
		return
	}
	a.Faults().Cut()
	next, _ := leadership.NewCandidate(b, "database/primary", "b", nil)
	if _, err := next.Campaign(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(old.IsLeader(), next.IsLeader())
	// Output: false true
}
