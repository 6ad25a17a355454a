package leadership

import (
	"log/slog"
	"time"
)

// event is something that has happened to a candidate or a follower. All that is told of it, to the log, the hooks and the
// channels, comes from here. (Callbacks are no news: a term waits for them.)
type event struct {
	what   happening
	token  uint64        // of the term, if it is about one
	leader Leader        // of termAcknowledged and leaderChanged
	time   time.Duration // termRenewed: from request to confirmation; termOverdue: what remains; attemptFailed: until the next
	err    error         // termEnded: the cause; attemptFailed; callbackFailed
}

type happening int

const (
	termBegan happening = iota
	termAcknowledged
	termRenewed
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
	n.hooks.tell(n.election, e)
}

// note tells the log and the error channel, and calls no function of the user's but the log's handler.
func (n *news) note(e event) {
	switch e.what {
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
