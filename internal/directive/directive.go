// Package directive has the values of ballots that an operator casts to tell candidates what they shall do. They go
// with the operator's session, as all ballots do. No candidate's value begins with a zero byte.
package directive

import (
	"strconv"
	"strings"
)

const lead = "\x00leadership lead\x00"

// Lead is the value of a ballot that wants the candidate with this ballot to lead when it is first in line: a candidate
// that would give way then does not.
func Lead(token uint64) string { return lead + strconv.FormatUint(token, 10) }

// Leads returns the token of the ballot that a ballot with this value wants to lead, if it is such a value.
func Leads(value string) (token string, ok bool) { return strings.CutPrefix(value, lead) }
