// Package opaque lets package fmt see what a thing is called, and none of its fields: they may hold a password, and
// change while they are read.
package opaque

import "fmt"

// Format is the work of a Format method: whatever the verb, it prints the text in the place of a value. It stands in
// for String and GoString too, which fmt asks for some verbs only: %d prints a struct field by field. No method is asked
// for %p and for %w where it does not belong, which go vet finds.
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
