// Package visible shows texts of others, which may be any bytes: to people, and in JSON.
package visible

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Value returns a candidate's value for people: quoted if a terminal or a page can't show one of its characters as it
// is.
func Value(value string) string {
	if value != "" && value[0] != '"' && strings.TrimSpace(value) == value && Text(value) == value && !strings.ContainsAny(value, "\n\t") {
		return value
	}
	return strconv.Quote(value)
}

// Text returns a text with the characters that might steer a terminal escaped, all but line breaks and tabs. Errors
// repeat what servers answer.
func Text(text string) string {
	var b strings.Builder
	for text != "" {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case r == '\n' || r == '\t' || strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
		text = text[size:]
	}
	return b.String()
}
