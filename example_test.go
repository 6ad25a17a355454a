package leadership_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"

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
	f.OnNewLeader(func(_ context.Context, leader leadership.Leader) {
		fmt.Println("connecting to", leader.Value)
		cancel() // enough for an example
	})
	f.Start()

	c, err := leadership.NewCandidate(st, "database/primary", "dbhost2:4567", nil)
	if err != nil {
		log.Fatal(err)
	}
	err = c.Run(ctx, func(ctx context.Context, term *leadership.Term) error {
		fmt.Println("becoming primary")
		if err := term.Acknowledge(ctx); err != nil { // followers learn of us now, not before
			return err
		}
		<-ctx.Done() // it ends when leadership does
		return nil
	})
	fmt.Println(err)
	// Output:
	// becoming primary
	// connecting to dbhost2:4567
	// context canceled
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
func candidate(st store.Store, value string, opts *leadership.Options) *leadership.Candidate {
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

// RunForElection drives a candidate by channels: true when a term begins, false when it ends.
func ExampleCandidate_RunForElection() {
	st := open()
	defer st.Close()
	c := candidate(st, "a", nil)
	election, errs := c.RunForElection()
	for leading := range election {
		fmt.Println("leading:", leading)
		if leading {
			c.Stop() // closes both channels
		}
	}
	for err := range errs {
		fmt.Println(err)
	}
	<-c.Done() // now the store can be closed
	// Output:
	// leading: false
	// leading: true
	// leading: false
}

// Callbacks work with Run and with RunForElection. The won callbacks take over; followers are told after the last one.
func ExampleCandidate_OnWon() {
	st := open()
	defer st.Close()
	f := follower(st)
	defer f.Stop()
	c := candidate(st, "a", nil)
	c.OnWon(func(ctx context.Context, term *leadership.Term) error {
		_, known := f.Leader()
		fmt.Println("taking over, known to followers:", known)
		return nil
	})
	c.RunForElection()
	defer c.Stop()
	leader, err := f.Wait(context.Background()) // the acknowledgement comes after all won callbacks
	fmt.Println("leader:", leader.Value, err)
	// Output:
	// taking over, known to followers: false
	// leader: a <nil>
}

func ExampleCandidate_OnNewLeader() {
	st := open()
	defer st.Close()
	term := lead(st, "a")
	c := candidate(st, "b", nil)
	called := make(chan struct{})
	c.OnNewLeader(func(ctx context.Context, leader leadership.Leader) {
		fmt.Println("new leader:", leader.Value)
		close(called)
	})
	c.RunForElection()
	<-called
	c.Stop()
	must(term.Withdraw(context.Background()))
	// Output: new leader: a
}

func ExampleCandidate_OnTermEnded() {
	st := open()
	defer st.Close()
	c := candidate(st, "a", nil)
	c.OnTermEnded(func(term *leadership.Term, cause error) {
		fmt.Println("the work has stopped, the ballot still stands:", cause)
	})
	fmt.Println(c.Run(context.Background(), func(ctx context.Context, term *leadership.Term) error {
		c.Stop()
		<-ctx.Done()
		fmt.Println("stopping the work")
		return nil
	}))
	// Output:
	// stopping the work
	// the work has stopped, the ballot still stands: stopped
	// <nil>
}

// A takeover that fails is never acknowledged: followers do not hear of it.
func ExampleCandidate_OnTakeoverFailed() {
	st := open()
	defer st.Close()
	c := candidate(st, "a", nil)
	broken := errors.New("disk is full")
	c.OnWon(func(ctx context.Context, term *leadership.Term) error { return broken })
	c.OnTakeoverFailed(func(err error) {
		fmt.Println(err, errors.Is(err, broken))
		c.Stop() // instead of going to the back of the queue
	})
	fmt.Println(c.Run(context.Background(), leadership.Lead))
	// Output:
	// takeover failed: disk is full true
	// <nil>
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
	first, second := candidate(st, "first", nil), candidate(st, "second", nil)
	a, _ := first.RunForElection()
	defer first.Stop()
	fmt.Println("first leads:", <-a, <-a)
	b, _ := second.RunForElection()
	defer second.Stop()
	fmt.Println("second leads:", <-b)
	for { // until the second stands too
		queue, err := st.Ballots(context.Background(), "x")
		must(err)
		if len(queue) == 2 {
			break
		}
	}
	first.Resign() // it stands again by itself, behind the second
	fmt.Println("first leads:", <-a)
	fmt.Println("second leads:", <-b)
	// Output:
	// first leads: false true
	// second leads: false
	// first leads: false
	// second leads: true
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

func ExampleHooks() {
	st := open()
	defer st.Close()
	hooks := &leadership.Hooks{
		TermBegan: func(election string, token uint64) { fmt.Println("began:", election) },
		Acknowledged: func(election string, token uint64, leader leadership.Leader) {
			fmt.Println("acknowledged", leader.Value)
		},
		TermEnded: func(election string, token uint64, cause error) { fmt.Println("ended:", cause) },
	}
	c := candidate(st, "a", &leadership.Options{Hooks: hooks})
	term, err := c.Campaign(context.Background())
	must(err)
	must(term.Acknowledge(context.Background()))
	must(term.Withdraw(context.Background())) // it waits for no hook
	c.Stop()
	<-c.Done()
	// Output:
	// began: x
	// acknowledged a
	// ended: resigned
}

func ExampleOptions() {
	st := open()
	defer st.Close()
	untimed := func(_ []string, a slog.Attr) slog.Attr { // so that the output is the same each time
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: untimed}))
	term, err := candidate(st, "a", &leadership.Options{Logger: logger}).Campaign(context.Background())
	must(err)
	must(term.Acknowledge(context.Background()))
	must(term.Withdraw(context.Background()))
	// Output:
	// level=INFO msg=elected election=x token=2
	// level=INFO msg=acknowledged election=x token=2 revision=3
	// level=INFO msg="leadership ended" election=x token=2 cause=resigned
}
