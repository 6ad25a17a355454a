package leadership

import "time"

// event is something that has happened to a candidate or a follower. The log, the hooks and the channels each tell of
// it in their way. (Callbacks are no news: a term waits for them.)
type event struct {
	what   happening
	token  uint64        // of the term, if it is about one
	leader Leader        // of termAcknowledged and leaderChanged
	time   time.Duration // termRenewed: from request to confirmation; termOverdue: what remains; attemptFailed: until the next
	err    error         // termEnded: the cause; attemptFailed
}

type happening int

const (
	termBegan happening = iota
	termAcknowledged
	termRenewed
	termOverdue        // its next renewal is
	termUnacknowledged // for a TTL
	termRequested      // an operator has asked for its end
	termEnded
	leaderChanged
	attemptFailed
)

// tell tells the log, the hooks and the channels of an event, except that a term has ended: Term.finish tells the log and
// the channels of that before any hook is called.
func (c *Candidate) tell(e event) {
	switch e.what {
	case termBegan:
		c.log.Info("elected", "token", e.token)
	case termAcknowledged:
		c.log.Info("acknowledged", "token", e.token, "revision", e.leader.Revision)
	case termOverdue:
		c.log.Warn("renewals are overdue, leadership ends soon without one", "token", e.token, "remaining", e.time)
	case termUnacknowledged:
		c.log.Warn("leading for a TTL without an acknowledgement: "+
			"followers do not know of this leader until the takeover is acknowledged", "token", e.token, "ttl", c.store.TTL())
	case attemptFailed:
		c.log.Warn("attempt failed, will try again", "error", e.err, "retry_in", e.time)
	}
	c.opts.Hooks.tell(c.election, e)
	if e.what == attemptFailed {
		c.channels.failed(e.err)
	}
}
