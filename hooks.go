package leadership

import "time"

// Hooks are functions to call as things happen to a candidate or a follower, in the manner of net/http/httptrace.
// Any of them may be nil. They are called from several goroutines, so they have to be safe for that. They should return
// soon: the next call of the same hook waits for the one before it (except Error), and a candidate under Run or
// RunForElection does not stand again before the hooks of its last term have returned. The end of a term waits for no
// hook.
//
// TermBegan is called in the goroutine of Campaign or Run, Acknowledged in that of Term.Acknowledge, and Error in that
// of the call which failed: a panic or runtime.Goexit in these reaches the caller, after the ballot of a term that
// began has been given back. All other hooks are called in the library's own goroutines, and so are all of a follower,
// all of a candidate under RunForElection, and Error for the new-leader callbacks. A panic ends the program there.
// runtime.Goexit ends the follower or RunForElection, with an error that says so; in Renewed, InJeopardy,
// ResignationRequested and TermEnded it ends that call only, and in Error for the new-leader callbacks it ends those until
// the candidate stands again.
type Hooks struct {
	// TermBegan is called when a term begins, before Campaign returns or Run calls anything else.
	TermBegan func(election string, token uint64)
	// TermEnded is called when a term has ended, with the cause: that of Term.Context. It comes after TermBegan and the
	// other hooks of the term but Acknowledged, if the term ends while its acknowledgement is on its way. It might come
	// while the leader's work still winds down.
	TermEnded func(election string, token uint64, cause error)
	// Acknowledged is called when the store has taken a leader's acknowledgement.
	Acknowledged func(election string, token uint64, leader Leader)
	// Renewed is called in a term when its session has been renewed, with the time from request to confirmation.
	Renewed func(election string, token uint64, latency time.Duration)
	// InJeopardy is called in a term when renewals are overdue and only the remaining time is left, once until the next
	// renewal.
	InJeopardy func(election string, token uint64, remaining time.Duration)
	// ResignationRequested is called before TermEnded for a term that has ended because an operator asked for it: see
	// store.Resigner.
	ResignationRequested func(election string, token uint64)
	// LeaderChanged is called by a follower for each change of the acknowledged leader that it sees. It is called for
	// the leader at the start, and not if there is none at the start.
	LeaderChanged func(election string, leader Leader)
	// Error is called after a failure, before the next try after the given time.
	Error func(election string, err error, retryIn time.Duration)
}

// tell calls the hook of an event, if there is one.
func (h *Hooks) tell(election string, e event) {
	switch {
	case e.what == termBegan && h.TermBegan != nil:
		h.TermBegan(election, e.token)
	case e.what == termAcknowledged && h.Acknowledged != nil:
		h.Acknowledged(election, e.token, e.leader)
	case e.what == termRenewed && h.Renewed != nil:
		h.Renewed(election, e.token, e.time)
	case e.what == termOverdue && h.InJeopardy != nil:
		h.InJeopardy(election, e.token, e.time)
	case e.what == termRequested && h.ResignationRequested != nil:
		h.ResignationRequested(election, e.token)
	case e.what == termEnded && h.TermEnded != nil:
		h.TermEnded(election, e.token, e.err)
	case e.what == leaderChanged && h.LeaderChanged != nil:
		h.LeaderChanged(election, e.leader)
	case e.what == attemptFailed && h.Error != nil:
		h.Error(election, e.err, e.time)
	}
}
