package leadership_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/memory"
)

// A candidate leads, and a follower is told so. With another store, its import and its URL are all that changes.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	st, err := store.Open(ctx, "memory://example?ttl=10s", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()

	f, err := leadership.NewFollower(st, "database/primary", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Stop()
	c, err := leadership.NewCandidate(st, "database/primary", "dbhost2:4567", nil)
	if err != nil {
		log.Fatal(err)
	}
	go c.Run(ctx, func(ctx context.Context, term *leadership.Term) error {
		fmt.Println("becoming primary")
		if err := term.Acknowledge(ctx); err != nil { // followers learn of us now, not before
			return err
		}
		<-ctx.Done() // it ends when leadership does
		return nil
	})
	leader, err := f.Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("connecting to", leader.Value)
	c.Stop()
	<-c.Done()
	// Output:
	// becoming primary
	// connecting to dbhost2:4567
}

// must stands for the handling of errors in the examples below.
func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// open opens a store on a service of its own.
func open() store.Store {
	st, err := memory.Open(memory.NewService(), nil)
	must(err)
	return st
}

// candidate returns a candidate of the election "x".
func candidate(st store.Store, value string, opts *leadership.CandidateOptions) *leadership.Candidate {
	c, err := leadership.NewCandidate(st, "x", value, opts)
	must(err)
	return c
}

// lead returns the term of a candidate that has campaigned and acknowledged.
func lead(st store.Store, value string) *leadership.Term {
	term, err := candidate(st, value, nil).Campaign(context.Background())
	must(err)
	must(term.Acknowledge(context.Background()))
	return term
}

func ExampleNewCandidate() {
	st := open()
	defer st.Close()
	_, err := leadership.NewCandidate(st, "shop/orders", "10.0.0.7:80", nil)
	fmt.Println(err)
	_, err = leadership.NewCandidate(st, "shop//orders", "10.0.0.7:80", nil)
	fmt.Println(errors.Is(err, store.ErrInvalid), err)
	// Output:
	// <nil>
	// true invalid election "shop//orders": it begins or ends with "/" or has "//" in it
}

// Run drives a candidate by a function. When the function returns, the candidate steps down and stands again.
func ExampleCandidate_Run() {
	st := open()
	defer st.Close()
	c := candidate(st, "a", nil)
	var last uint64
	err := c.Run(context.Background(), func(ctx context.Context, term *leadership.Term) error {
		fmt.Println("leading, the token is higher than the last:", term.Token() > last)
		if last > 0 {
			c.Stop() // Run returns when this function has
			return nil
		}
		last = term.Token()
		return nil // step down and stand again
	})
	fmt.Println(err)
	// Output:
	// leading, the token is higher than the last: true
	// leading, the token is higher than the last: true
	// <nil>
}

// Campaign is for programs with a loop of their own: they acknowledge, watch the context of the term, and
// withdraw.
func ExampleCandidate_Campaign() {
	st := open()
	defer st.Close()
	ctx := context.Background()
	c := candidate(st, "a", nil)
	term, err := c.Campaign(ctx) // returns once elected
	must(err)
	must(term.Acknowledge(ctx))
	fmt.Println("leading:", c.IsLeader())
	must(term.Withdraw(ctx)) // in any case, when the work has stopped
	fmt.Println("leading:", c.IsLeader())
	// Output:
	// leading: true
	// leading: false
}

// IsLeader is cheap enough to ask at each request.
func ExampleCandidate_IsLeader() {
	st := open()
	defer st.Close()
	c := candidate(st, "a", nil)
	serve := func(request string) {
		if !c.IsLeader() {
			fmt.Println("refused:", request)
			return
		}
		fmt.Println("served:", request)
	}
	serve("first")
	term, err := c.Campaign(context.Background())
	must(err)
	serve("second")
	must(term.Withdraw(context.Background()))
	serve("third")
	// Output:
	// refused: first
	// served: second
	// refused: third
}

func ExampleCandidate_Resign() {
	st := open()
	defer st.Close()
	c := candidate(st, "a", nil)
	turns := 0
	err := c.Run(context.Background(), func(ctx context.Context, _ *leadership.Term) error {
		if turns++; turns == 1 {
			c.Resign() // it stands again by itself, at the back of the queue
		} else {
			c.Stop()
		}
		fmt.Println("turn", turns, context.Cause(ctx))
		return nil
	})
	fmt.Println(err)
	// Output:
	// turn 1 resigned
	// turn 2 stopped
	// <nil>
}

func ExampleCandidate_Stop() {
	st := open()
	defer st.Close()
	c := candidate(st, "a", nil)
	term, err := c.Campaign(context.Background())
	must(err)
	c.Stop() // it leads no more, and campaigns no more
	fmt.Println(c.IsLeader(), context.Cause(term.Context()))
	must(term.Withdraw(context.Background())) // when the work has stopped
	<-c.Done()                                // nothing of the candidate's is left
	_, err = c.Campaign(context.Background())
	fmt.Println(err)
	queue, err := st.Ballots(context.Background(), "x")
	fmt.Println(len(queue), err)
	// Output:
	// false stopped
	// stopped
	// 0 <nil>
}

func ExampleEvent() {
	st := open()
	defer st.Close()
	c := candidate(st, "a", &leadership.CandidateOptions{Events: func(e leadership.Event) {
		switch e.Kind {
		case leadership.TermBegan:
			fmt.Println("began:", e.Election)
		case leadership.Acknowledged:
			fmt.Println("acknowledged", e.Leader.Value)
		case leadership.TermEnded:
			fmt.Println("ended:", e.Err)
		}
	}})
	term, err := c.Campaign(context.Background())
	must(err)
	must(term.Acknowledge(context.Background()))
	must(term.Withdraw(context.Background())) // it does not wait for events to be told
	c.Stop()
	<-c.Done()
	// Output:
	// began: x
	// acknowledged a
	// ended: resigned
}

func ExampleCandidateOptions() {
	st := open()
	defer st.Close()
	untimed := func(_ []string, a slog.Attr) slog.Attr { // so that the output is the same each time
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: untimed}))
	c := candidate(st, "a", &leadership.CandidateOptions{Logger: logger})
	term, err := c.Campaign(context.Background())
	must(err)
	must(term.Acknowledge(context.Background()))
	must(term.Withdraw(context.Background()))
	c.Stop()
	<-c.Done() // everything has been logged
	// Output:
	// level=INFO msg=elected election=x token=2
	// level=INFO msg=acknowledged election=x token=2 revision=3
	// level=INFO msg="leadership ended" election=x token=2 cause=resigned
}

// A leader of the past can't make itself known: the store refuses it, and so does its own term before that.
func ExampleTerm_Acknowledge() {
	st := open()
	defer st.Close()
	ctx := context.Background()
	term, err := candidate(st, "a", nil).Campaign(ctx)
	must(err)
	fmt.Println(term.Acknowledge(ctx))
	must(term.Withdraw(ctx))
	err = term.Acknowledge(ctx)
	fmt.Println(errors.Is(err, leadership.ErrNotElected), err)
	// Output:
	// <nil>
	// true not elected: the term in election "x" is over: resigned
}

func ExampleTerm_Context() {
	st := open()
	defer st.Close()
	term := lead(st, "a")
	fmt.Println(term.Context().Err())
	must(term.Withdraw(context.Background()))
	<-term.Context().Done()
	fmt.Println(context.Cause(term.Context()))
	// Output:
	// <nil>
	// resigned
}

// fence is a resource that remembers the highest token it has seen. A database keeps that in a row, and writes it in
// the transaction that it guards.
type fence struct{ highest uint64 }

// Write refuses a leader of the past, whatever that one believes.
func (f *fence) Write(token uint64, what string) {
	if token < f.highest {
		fmt.Println("refused:", what)
		return
	}
	f.highest = token
	fmt.Println("written:", what)
}

// Reset forgets the highest token. An operator calls it when the election moves to another store, whose tokens can't be
// compared with those of the last: after all candidates have stopped, when no write of theirs is under way any more, and
// before the first starts on the other store.
func (f *fence) Reset() { f.highest = 0 }

// A resource that remembers the highest token refuses a leader of the past. It has to forget the token when the election
// moves to another store.
func ExampleTerm_Token() {
	ctx := context.Background()
	var resource fence

	from := open()
	old := lead(from, "a")
	resource.Write(old.Token(), "by a")
	must(old.Withdraw(ctx))
	term := lead(from, "b")
	resource.Write(term.Token(), "by b")
	resource.Write(old.Token(), "by a, which came late")
	must(term.Withdraw(ctx))
	must(from.Close())

	to := open() // its tokens begin anew
	defer to.Close()
	term = lead(to, "c")
	resource.Write(term.Token(), "by c, before the reset")
	must(term.Withdraw(ctx))
	resource.Reset()
	term = lead(to, "d")
	resource.Write(term.Token(), "by d")
	must(term.Withdraw(ctx))
	// Output:
	// written: by a
	// written: by b
	// refused: by a, which came late
	// refused: by c, before the reset
	// written: by d
}

// follower returns a follower of the election "x".
func follower(st store.Store) *leadership.Follower {
	f, err := leadership.NewFollower(st, "x", nil)
	must(err)
	return f
}

func ExampleFollower_Wait() {
	st := open()
	defer st.Close()
	f := follower(st)
	defer f.Stop()
	c := candidate(st, "10.0.0.7:80", nil)
	run(c, leadership.Lead)
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
