package leadership_test

import (
	"context"
	"fmt"
)

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
