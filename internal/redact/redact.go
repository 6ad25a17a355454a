// Package redact formats values for log lines and errors. It shows the name of a thing and none of its fields, since
// fields might hold a password and might change while they are read. Of a long value it shows the beginning.
package redact

import (
	"fmt"
	"strings"
)

// Format implements a Format method: it prints the text instead of a value, with any verb. String and GoString are not
// enough: fmt calls them for some verbs only, and prints a struct field by field with %d. For %p, and for %w outside
// Errorf, fmt calls no method; go vet finds those.
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
