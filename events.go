package leadership

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-leadership/leadership/internal/teller"
)

// Event is something that has happened to a candidate or a follower.
//
// One goroutine of each candidate and follower writes to the log and calls Events, so neither holds up a term, an election or
// a follower. Events come in the order in which they happen, each to the log first. A term might be over when its TermBegan
// comes. After its TermEnded, only BallotWithdrawn comes, and Acknowledged if that was on its way.
//
// While Events or a log handler hangs, up to 100 events wait; then each new one replaces the oldest of its kind. Run waits a
// second for it at its end, Done until it returns. A panic or runtime.Goexit ends that call only, and is logged.
type Event struct {
	Kind     EventKind
	Election string
	Token    uint64 // of the ballot; 0 if the event is not about one

	Leader    Leader        // Acknowledged and LeaderChanged
	Err       error         // TermEnded: the cause of Term.Context; AttemptFailed: the failure
	Remaining time.Duration // RenewalOverdue: the time until the term ends without a renewal
	After     time.Duration // BallotWithdrawn: the time since the term ended
	RetryIn   time.Duration // AttemptFailed: the time until the next attempt
}

// EventKind is what has happened.
type EventKind int

const (
	BallotCast           EventKind = iota // a ballot stands
	TermBegan                             // the candidate leads
	Acknowledged                          // followers are told of the leader
	RenewalOverdue                        // the session of a term should have been renewed; once until it is
	ResignationRequested                  // an operator has asked for the term's end, which comes next
	TermEnded                             // the term is over; the leader's work might still wind down
	BallotWithdrawn                       // the ballot of a term that is over is known to be gone
	LeaderChanged                         // a follower sees another leader, or none any more
	AttemptFailed                         // an attempt has failed, and is repeated
)

// Kinds that only the log is told of.
const (
	unacknowledged = AttemptFailed + 1 + iota // the term has gone on for Remaining without an acknowledgement
	noLeaderYet
)

// String returns the name, such as "term began".
func (k EventKind) String() string {
	return nameOf("event", int(k), "ballot cast", "term began", "acknowledged", "renewal overdue", "resignation requested",
		"term ended", "ballot withdrawn", "leader changed", "attempt failed", "unacknowledged", "no leader yet")
}

func nameOf(kind string, i int, names ...string) string {
	if i < 0 || i >= len(names) {
		return fmt.Sprintf("%s %d", kind, i)
	}
	return names[i]
}

// line returns what the log is told.
func (e Event) line() slog.Record {
	switch e.Kind {
	case BallotCast:
		return newLine(slog.LevelDebug, "standing", "token", e.Token)
	case BallotWithdrawn:
		return newLine(slog.LevelDebug, "ballot withdrawn", "token", e.Token, "after", e.After)
	case TermBegan:
		return newLine(slog.LevelInfo, "elected", "token", e.Token)
	case Acknowledged:
		return newLine(slog.LevelInfo, "acknowledged", "token", e.Token, "revision", e.Leader.Revision)
	case RenewalOverdue:
		return newLine(slog.LevelWarn, "renewals are overdue: leadership ends soon without one", "token", e.Token, "remaining", e.Remaining)
	case unacknowledged:
		return newLine(slog.LevelWarn, "leading for a TTL without an acknowledgement: "+
			"followers do not know of this leader until the takeover is acknowledged", "token", e.Token, "ttl", e.Remaining)
	case TermEnded:
		return newLine(slog.LevelInfo, "leadership ended", "token", e.Token, "cause", e.Err)
	case LeaderChanged:
		if e.Leader.Revision == 0 {
			return newLine(slog.LevelInfo, "leader gone")
		}
		return newLine(slog.LevelInfo, "leader changed", "leader", e.Leader.Value, "revision", e.Leader.Revision)
	case noLeaderYet:
		return newLine(slog.LevelInfo, "no leader yet")
	case AttemptFailed:
		return newLine(slog.LevelWarn, "attempt failed, will try again", "error", e.Err, "retry_in", e.RetryIn)
	}
	return slog.Record{} // the end of the term says that it was requested
}

// notifier writes to the log and calls Events, for one candidate or follower: see Event.
type notifier struct {
	election string
	handler  slog.Handler // of the log; it has all attributes already
	events   func(Event)  // nil without one
	queue    *teller.Queue
}

// mostWaiting is how many events wait while a log handler or Events hangs.
const mostWaiting = 100

func newNotifier(election string, logger *slog.Logger, events func(Event), tasks *tasks) notifier {
	handler := cmp.Or(logger, slog.Default()).With("election", election).Handler()
	return notifier{election, handler, events, teller.NewQueue(mostWaiting, tasks.run)}
}

// notify adds an event. It does not block.
func (n *notifier) notify(e Event) {
	e.Election = n.election
	line := e.line()
	n.queue.Add(e.Kind, func() {
		n.write(line)
		if n.events == nil || e.Kind > AttemptFailed {
			return
		}
		if err := teller.Call(func() error { n.events(e); return nil }); err != nil {
			n.write(newLine(slog.LevelError, "the events function failed", "event", e.Kind.String(), "error", err))
		}
	})
}

// log adds a line. It does not block. There are few texts.
func (n *notifier) log(level slog.Level, text string, args ...any) {
	line := newLine(level, text, args...)
	n.queue.Add(text, func() { n.write(line) })
}

// write calls the log's handler, if there is a line. Only the queue calls it.
func (n *notifier) write(line slog.Record) {
	if line.Message != "" {
		_ = teller.Log(n.handler, line) // a failure is written to slog.Default
	}
}

// retry reports a failure and waits before the next try.
func (n *notifier) retry(ctx context.Context, err error, in time.Duration) {
	n.notify(Event{Kind: AttemptFailed, Err: err, RetryIn: in})
	sleep(ctx, in)
}

// newLine returns a line of the log with the time of the call.
func newLine(level slog.Level, text string, args ...any) slog.Record {
	line := slog.NewRecord(time.Now(), level, text, 0)
	line.Add(args...)
	return line
}
