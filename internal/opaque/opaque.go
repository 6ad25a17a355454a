// Package opaque shows what a log line can hold: what a thing is called, and none of its fields, which may hold a
// password, and change while they are read; of a long value its beginning.
package opaque

import (
	"fmt"
	"strings"
)

// Format is the work of a Format method: it prints the text instead of a value, with any verb. It stands in for String
// and GoString too, which fmt asks for some verbs only: %d prints a struct field by field. No method is asked for %p
// and for %w in a wrong place, which go vet finds.
func Format(f fmt.State, verb rune, text string) {
	_, _ = fmt.Fprintf(f, fmt.FormatString(f, verb), text)
}

// Name says what to call a value of any type: as its own String method does, or else by its type.
func Name(value any) string {
	if s, ok := value.(fmt.Stringer); ok {
		return s.String()
	}
	return fmt.Sprintf("%T", value)
}

// longest is how many bytes of a value Shorten leaves.
const longest = 64

// Shorten returns what an error shows of a value that was given.
func Shorten(value string) string {
	if len(value) <= longest {
		return value
	}
	return strings.ToValidUTF8(value[:longest], "") + "..."
}
