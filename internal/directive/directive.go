// Package directive has the values of ballots that an operator casts to tell candidates what they shall do. They go
// with the operator's session, as all ballots do. No candidate's value begins with a zero byte.
package directive

import "strconv"

// Lead is the value of a ballot that wants the candidate with this ballot to lead when it is first in line: a candidate
// that would give way then does not.
func Lead(token uint64) string { return "\x00leadership lead\x00" + strconv.FormatUint(token, 10) }
