package leadership

import "time"

// Hooks are functions to call as things happen to a candidate or a follower, in the manner of net/http/httptrace.
// Any of them may be nil. They are called one at a time for each event but from several goroutines, so they have to
// be safe for that; they must return soon, because what they report on waits for them.
type Hooks struct {
	// Won is called when a term begins.
	Won func(election string, token uint64)
	// Lost is called when a term ends, with the cause: that of Term.Context.
	Lost func(election string, token uint64, cause error)
	// Acknowledged is called when the store has taken a leader's acknowledgement.
	Acknowledged func(election string, token uint64, leader Leader)
	// Renewed is called in a term when its session has been renewed, with the time from request to confirmation.
	Renewed func(election string, token uint64, latency time.Duration)
	// InJeopardy is called in a term when renewals are overdue and only the remaining time is left, once until the next
	// renewal.
	InJeopardy func(election string, token uint64, remaining time.Duration)
	// LeaderChanged is called by a follower for each change of the acknowledged leader that it sees.
	LeaderChanged func(election string, leader Leader)
	// Error is called after a failure that is going to be tried again after the given time.
	Error func(election string, err error, retryIn time.Duration)
}

func (h *Hooks) won(election string, token uint64) {
	if h.Won != nil {
		h.Won(election, token)
	}
}

func (h *Hooks) lost(election string, token uint64, cause error) {
	if h.Lost != nil {
		h.Lost(election, token, cause)
	}
}

func (h *Hooks) acknowledged(election string, token uint64, leader Leader) {
	if h.Acknowledged != nil {
		h.Acknowledged(election, token, leader)
	}
}

func (h *Hooks) renewed(election string, token uint64, latency time.Duration) {
	if h.Renewed != nil {
		h.Renewed(election, token, latency)
	}
}

func (h *Hooks) inJeopardy(election string, token uint64, remaining time.Duration) {
	if h.InJeopardy != nil {
		h.InJeopardy(election, token, remaining)
	}
}

func (h *Hooks) leaderChanged(election string, leader Leader) {
	if h.LeaderChanged != nil {
		h.LeaderChanged(election, leader)
	}
}

func (h *Hooks) error(election string, err error, retryIn time.Duration) {
	if h.Error != nil {
		h.Error(election, err, retryIn)
	}
}
