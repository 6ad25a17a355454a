package leadership

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"time"
)

// Hooks are functions to call as things happen to a candidate or a follower, in the manner of net/http/httptrace.
// Any of them may be nil. They are called from several goroutines, so they have to be safe for that. They should return
// soon: the next call of the same hook waits for the one before it (except Error), and a candidate under Run or
// RunForElection does not stand again before the hooks of its last term have returned. The end of a term waits for no
// hook.
//
// TermBegan returns before Campaign does, or Run calls anything else. A panic of a hook, or runtime.Goexit, ends that call
// only; the log and the error channel report it.
type Hooks struct {
	// Cast is called when a ballot has been cast, before it waits for its turn: while the hook hangs, the ballot keeps all
	// behind it waiting.
	Cast func(election string, token uint64)
	// TermBegan is called when a term begins, before Campaign returns or Run calls anything else.
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
	// Error is called after a failure, before the next try after the given time.
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

// callHook calls the hook of an event, if there is one.
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

// news tells the events of one candidate or follower.
type news struct {
	election  string
	log       *slog.Logger
	hooks     *Hooks
	showError func(error) // on the channel
}

func newNews(election string, opts *Options, showError func(error)) news {
	n := news{election: election, log: slog.New(slog.DiscardHandler), hooks: &noHooks, showError: showError}
	if opts != nil && opts.Logger != nil {
		n.log = slog.New(logHandler{opts.Logger.With("election", election).Handler(), showError})
	}
	if opts != nil && opts.Hooks != nil {
		n.hooks = opts.Hooks
	}
	return n
}

var noHooks Hooks

// tell tells all of an event. The caller may run functions of the user's.
func (n *news) tell(e event) {
	n.note(e)
	n.callHook(e)
}

// note tells the log and the error channel, and calls no function of the user's but the log's handler.
func (n *news) note(e event) {
	switch e.what {
	case ballotCast:
		n.log.Debug("standing", "token", e.token)
	case ballotGivenBack:
		n.log.Debug("ballot given back", "token", e.token, "after", e.time)
	case termBegan:
		n.log.Info("elected", "token", e.token)
	case termAcknowledged:
		n.log.Info("acknowledged", "token", e.token, "revision", e.leader.Revision)
	case termOverdue:
		n.log.Warn("renewals are overdue: leadership ends soon without one", "token", e.token, "remaining", e.time)
	case termUnacknowledged:
		n.log.Warn("leading for a TTL without an acknowledgement: "+
			"followers do not know of this leader until the takeover is acknowledged", "token", e.token, "ttl", e.time)
	case termEnded:
		n.log.Info("leadership ended", "token", e.token, "cause", e.err)
	case leaderChanged:
		if e.leader.Revision == 0 {
			n.log.Info("leader gone")
			break
		}
		n.log.Info("leader changed", "leader", e.leader.Value, "revision", e.leader.Revision)
	case noLeaderYet:
		n.log.Info("no leader yet")
	case attemptFailed:
		n.log.Warn("attempt failed, will try again", "error", e.err, "retry_in", e.time)
		n.showError(e.err)
	case callbackFailed:
		n.log.Error("callback failed", "error", e.err)
		n.showError(e.err)
	}
}

// logHandler is the handler of the program's. A line in which it panics or calls runtime.Goexit is lost.
type logHandler struct {
	slog.Handler             // it has all attributes already
	showError    func(error) // called if a line is lost
}

// Enabled implements slog.Handler.
func (h logHandler) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	h.call(func() { enabled = h.Handler.Enabled(ctx, level) })
	return enabled
}

// Handle implements slog.Handler.
func (h logHandler) Handle(ctx context.Context, record slog.Record) (err error) {
	h.call(func() { err = h.Handler.Handle(ctx, record) })
	return err
}

func (h logHandler) call(f func()) {
	if err := call(func() error { f(); return nil }); err != nil {
		h.showError(fmt.Errorf("a line of the log is lost: %w", err))
	}
}
