package leadership

import (
	"log/slog"
	"reflect"
	"time"

	"github.com/go-leadership/leadership/internal/teller"
)

// Hooks are functions to call as things happen to a candidate or a follower, in the manner of net/http/httptrace.
// Any of them may be nil.
//
// Each candidate and each follower has one goroutine that tells the log and the hooks. Nothing else calls a log handler
// or a hook, so none of them can hold up a term's beginning or end, a ballot, an election or a follower, and Resign and
// Stop don't wait for them. What happens is told in the order in which it happens, one event after another, each to the
// log first and then to its hook: "elected" comes before "leadership ended", and that before the next "elected". A term
// might be over when its TermBegan is called.
//
// A handler or hook that hangs delays what is told after it. While more than 100 events wait, each new one replaces the
// oldest of its kind. At its end, Run waits for what it has told, but no longer than a second; Done waits until everything
// has been told. A panic of a hook, or runtime.Goexit, ends that call only; the log and the error channel report it.
type Hooks struct {
	// Cast is called when a ballot has been cast.
	Cast func(election string, token uint64)
	// TermBegan is called when a term has begun.
	TermBegan func(election string, token uint64)
	// TermEnded is called when a term has ended, with the cause: that of Term.Context. It might come while the leader's work
	// still winds down. Of the hooks of the term only GivenBack comes after it, and Acknowledged if the term ends while its
	// acknowledgement is on its way.
	TermEnded func(election string, token uint64, cause error)
	// Acknowledged is called when the store has taken a leader's acknowledgement.
	Acknowledged func(election string, token uint64, leader Leader)
	// InJeopardy is called in a term when renewals are overdue and only the remaining time is left, once until the next
	// renewal.
	InJeopardy func(election string, token uint64, remaining time.Duration)
	// ResignationRequested is called before TermEnded for a term that has ended because an operator asked for it: see
	// store.Store.
	ResignationRequested func(election string, token uint64)
	// GivenBack is called after TermEnded when the ballot of a term is known to be gone, with the time since the term ended.
	// It is not called if the store could not confirm that: the session ends then, and takes the ballot along.
	GivenBack func(election string, token uint64, after time.Duration)
	// LeaderChanged is called by a follower for each change of the acknowledged leader that it sees. It is called for
	// the leader at the start, and not if there is none at the start.
	LeaderChanged func(election string, leader Leader)
	// Error is called after a failure. The next try follows the failure after the given time.
	Error func(election string, err error, retryIn time.Duration)
}

// ChainHooks returns hooks that call those of each of the list, in its order. A hook that panics or calls runtime.Goexit
// keeps no other from being called. A hook that none of the list has is nil.
func ChainHooks(list ...*Hooks) *Hooks {
	var chain Hooks
	for i := range reflect.TypeFor[Hooks]().NumField() {
		field := reflect.ValueOf(&chain).Elem().Field(i)
		var calls []reflect.Value
		for _, hooks := range list {
			if hooks == nil {
				continue
			}
			if f := reflect.ValueOf(hooks).Elem().Field(i); !f.IsNil() {
				calls = append(calls, f)
			}
		}
		if len(calls) > 0 {
			field.Set(reflect.MakeFunc(field.Type(), func(args []reflect.Value) []reflect.Value { callAll(calls, args); return nil }))
		}
	}
	return &chain
}

// callAll calls functions one after the other, also if one of them does not return.
func callAll(calls, args []reflect.Value) {
	if len(calls) > 0 {
		defer callAll(calls[1:], args)
		calls[0].Call(args)
	}
}

// callHook calls the hook of an event, if there is one. Only tell does.
func (n *news) callHook(e event) {
	h := n.hooks
	switch {
	case e.what == ballotCast && h.Cast != nil:
		n.call(func() { h.Cast(n.election, e.token) })
	case e.what == ballotGivenBack && h.GivenBack != nil:
		n.call(func() { h.GivenBack(n.election, e.token, e.time) })
	case e.what == termBegan && h.TermBegan != nil:
		n.call(func() { h.TermBegan(n.election, e.token) })
	case e.what == termAcknowledged && h.Acknowledged != nil:
		n.call(func() { h.Acknowledged(n.election, e.token, e.leader) })
	case e.what == termOverdue && h.InJeopardy != nil:
		n.call(func() { h.InJeopardy(n.election, e.token, e.time) })
	case e.what == termRequested && h.ResignationRequested != nil:
		n.call(func() { h.ResignationRequested(n.election, e.token) })
	case e.what == termEnded && h.TermEnded != nil:
		n.call(func() { h.TermEnded(n.election, e.token, e.err) })
	case e.what == leaderChanged && h.LeaderChanged != nil:
		n.call(func() { h.LeaderChanged(n.election, e.leader) })
	case e.what == attemptFailed && h.Error != nil:
		n.call(func() { h.Error(n.election, e.err, e.time) })
	}
}

// event is something that has happened to a candidate or a follower. All that is told of it, to the log, the hooks and the
// channels, comes from here. (Callbacks are no news: a term waits for them.)
type event struct {
	what   happening
	token  uint64        // of the term, if it is about one
	leader Leader        // of termAcknowledged and leaderChanged
	time   time.Duration // ballotGivenBack: since the term ended; termOverdue: what remains; attemptFailed: until the next
	err    error         // termEnded: the cause; attemptFailed; callbackFailed
}

type happening int

const (
	ballotCast happening = iota
	ballotGivenBack
	termBegan
	termAcknowledged
	termOverdue        // a renewal is overdue
	termUnacknowledged // it has gone on for a TTL without an acknowledgement
	termRequested      // an operator has asked for its end
	termEnded
	leaderChanged
	noLeaderYet // there is none when a follower starts
	attemptFailed
	callbackFailed
)

// news tells the events of one candidate or follower: see Hooks.
type news struct {
	election  string
	log       slog.Handler // it has all attributes already
	hooks     *Hooks
	showError func(error) // on the channel; it does not block
	told      *teller.Queue
}

// mostUntold is how many events wait while a log handler or hook hangs.
const mostUntold = 100

func newNews(election string, opts *Options, tasks *tasks, showError func(error)) news {
	logger := slog.Default()
	if opts != nil && opts.Logger != nil {
		logger = opts.Logger
	}
	n := news{election: election, log: logger.With("election", election).Handler(), hooks: &noHooks, showError: showError}
	n.told = teller.NewQueue(mostUntold, tasks.run)
	if opts != nil && opts.Hooks != nil {
		n.hooks = opts.Hooks
	}
	return n
}

var noHooks Hooks

// tell tells the error channel of an event, and soon the log and the hook. It does not block.
func (n *news) tell(e event) {
	if e.what == attemptFailed || e.what == callbackFailed {
		n.showError(e.err)
	}
	line := e.line()
	n.told.Add(e.what, func() {
		n.write(line)
		n.callHook(e)
	})
}

// say logs a line soon. It does not block. There are few texts.
func (n *news) say(level slog.Level, text string, args ...any) {
	line := newLine(level, text, args...)
	n.told.Add(text, func() { n.write(line) })
}

// write calls the log's handler, if there is a line. Only what tell and say have added does.
func (n *news) write(line slog.Record) {
	if line.Message == "" {
		return
	}
	if err := teller.Log(n.log, line); err != nil {
		n.showError(err)
	}
}

// newLine returns a line of the log with the time of the call.
func newLine(level slog.Level, text string, args ...any) slog.Record {
	line := slog.NewRecord(time.Now(), level, text, 0)
	line.Add(args...)
	return line
}

// line returns what the log is told.
func (e event) line() slog.Record {
	switch e.what {
	case ballotCast:
		return newLine(slog.LevelDebug, "standing", "token", e.token)
	case ballotGivenBack:
		return newLine(slog.LevelDebug, "ballot given back", "token", e.token, "after", e.time)
	case termBegan:
		return newLine(slog.LevelInfo, "elected", "token", e.token)
	case termAcknowledged:
		return newLine(slog.LevelInfo, "acknowledged", "token", e.token, "revision", e.leader.Revision)
	case termOverdue:
		return newLine(slog.LevelWarn, "renewals are overdue: leadership ends soon without one", "token", e.token, "remaining", e.time)
	case termUnacknowledged:
		return newLine(slog.LevelWarn, "leading for a TTL without an acknowledgement: "+
			"followers do not know of this leader until the takeover is acknowledged", "token", e.token, "ttl", e.time)
	case termEnded:
		return newLine(slog.LevelInfo, "leadership ended", "token", e.token, "cause", e.err)
	case leaderChanged:
		if e.leader.Revision == 0 {
			return newLine(slog.LevelInfo, "leader gone")
		}
		return newLine(slog.LevelInfo, "leader changed", "leader", e.leader.Value, "revision", e.leader.Revision)
	case noLeaderYet:
		return newLine(slog.LevelInfo, "no leader yet")
	case attemptFailed:
		return newLine(slog.LevelWarn, "attempt failed, will try again", "error", e.err, "retry_in", e.time)
	case callbackFailed:
		return newLine(slog.LevelError, "callback failed", "error", e.err)
	}
	return slog.Record{} // the end of the term says that it was requested
}
