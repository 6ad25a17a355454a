package engine

import (
	"log/slog"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
)

// outage is what the gate knows of an outage of the service. It begins when a request ends without an answer, and no
// request has been answered since that one was sent. Then the gate lets one request through at a time, as a probe of the
// service, and pauses after it. The first answer ends the outage. So a store with many elections sends few requests to a
// service that does not answer, and finds out soon that the service answers again.
//
// An outage that has lasted for [unnoticed] is logged once, and so is its end. The gate's mu guards it.
type outage struct {
	name    string // constant: of the store
	program *program

	answered time.Time     // when the last answer came
	began    time.Time     // when the request was sent that has no answer; zero if there is no outage
	cause    string        // why it has none
	warn     *time.Timer   // logs the beginning
	warned   bool          // it was logged
	pause    time.Duration // after the last probe
	opened   bool          // the last probe was a request to open a session
}

const (
	// leastPause is the time from the first probe of an outage to the second. It doubles to mostPause.
	leastPause, mostPause = 50 * time.Millisecond, 250 * time.Millisecond
	// unnoticed is how long an outage lasts before it is logged: a reply that is lost costs less.
	unnoticed = time.Second
)

func (o *outage) isOut() bool { return !o.began.IsZero() }

// begin records that a request was not answered, and reports whether an outage begins.
func (o *outage) begin(sent time.Time, err error) bool {
	if o.answered.After(sent) { // perhaps by another server
		return false
	}
	o.cause = adapter.Reason(err)
	if o.isOut() {
		return false
	}
	o.began = sent
	return true
}

// end records an answer, and reports whether the answer ends an outage.
func (o *outage) end() bool {
	o.answered = time.Now()
	if !o.isOut() {
		return false
	}
	if o.warned {
		o.program.log(slog.LevelInfo, "the service answers again", "store", o.name, "after", o.answered.Sub(o.began).Round(time.Millisecond))
	}
	o.began, o.warned, o.pause = time.Time{}, false, 0
	return true
}

// lasts logs the outage that began then, if it still lasts.
func (o *outage) lasts(began time.Time) {
	if o.began.Equal(began) && !o.warned {
		o.warned = true
		o.program.log(slog.LevelWarn, "the service does not answer", "store", o.name, "cause", o.cause)
	}
}
