package leadership_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-leadership/leadership"
)

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
