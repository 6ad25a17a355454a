package leadership

import (
	"fmt"

	"github.com/go-leadership/leadership/internal/redact"
)

// String returns the election and the store, and not the value: that may be anything.
func (c *Candidate) String() string {
	return fmt.Sprintf("candidate in election %q on %s", c.election, redact.Name(c.store))
}

// Format implements fmt.Formatter: with every verb it prints what String returns.
func (c *Candidate) Format(f fmt.State, verb rune) { redact.Format(f, verb, c.String()) }

// String returns the election and the store.
func (f *Follower) String() string {
	return fmt.Sprintf("follower of election %q on %s", f.election, redact.Name(f.store))
}

// Format implements fmt.Formatter: with every verb it prints what String returns.
func (f *Follower) Format(s fmt.State, verb rune) { redact.Format(s, verb, f.String()) }

// String returns the token, the election and the store.
func (t *Term) String() string {
	return fmt.Sprintf("term %d in election %q on %s", t.Token(), t.election, redact.Name(t.store))
}

// Format implements fmt.Formatter: with every verb it prints what String returns.
func (t *Term) Format(f fmt.State, verb rune) { redact.Format(f, verb, t.String()) }
