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
	// the leader's function failed: takeover failed: disk is full true
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
	c := candidate(st, "a", &leadership.Options{Logger: logger})
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

func ExampleTerm_Remaining() {
	st := open()
	defer st.Close()
	term := lead(st, "a")
	if term.Remaining() > time.Second {
		fmt.Println("time enough for a second's work")
	}
	must(term.Withdraw(context.Background()))
	fmt.Println(term.Remaining())
	// Output:
	// time enough for a second's work
	// 0s
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

func ExampleFollower_FollowElection() {
	st := open()
	defer st.Close()
	f := follower(st)
	leaders, errs := f.FollowElection()
	fmt.Println(<-leaders == leadership.Leader{}) // no leader yet
	term := lead(st, "a")
	fmt.Println((<-leaders).Value)
	must(term.Withdraw(context.Background()))
	fmt.Println(<-leaders == leadership.Leader{})
	f.Stop() // closes both channels
	for err := range errs {
		fmt.Println(err)
	}
	// Output:
	// true
	// a
	// true
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
