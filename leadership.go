// Package leadership elects one leader among many processes and tells everyone who it is.
//
// A process that wants to lead makes a [Candidate]; one that only wants to know who leads makes a [Follower]. Both use
// a [store.Store]: a session in ZooKeeper, etcd, Consul or PostgreSQL, in a directory of one machine, or in memory for
// tests, chosen by URL. This package knows none of these services.
//
//	st, err := store.Open(ctx, "zookeeper://10.0.0.1:2181,10.0.0.2:2181/?ttl=10s", nil)
//	c, err := leadership.NewCandidate(st, "database/primary", "dbhost2:4567", nil)
//	err = c.Run(ctx, func(ctx context.Context, term *leadership.Term) error {
//		if err := becomePrimary(ctx, term.Token()); err != nil {
//			return err // never acknowledged: followers are not told that we lead
//		}
//		if err := term.Acknowledge(ctx); err != nil { // followers learn of us now, not before
//			return err
//		}
//		return servePrimary(ctx) // ctx ends when leadership does
//	})
//
// # What it promises
//
//   - G1 One leader. At no instant do two candidates of an election both see themselves as leader, as long as the
//     machines' clocks run at the same rate to within a few per cent over one TTL, no virtual machine is paused for
//     longer than the grace, and the store ends no session early: it loses no renewal that it has confirmed, as an
//     asynchronous failover may. No clock is ever compared with another machine's.
//   - G2 Fencing. Every term carries a 64-bit token that strictly grows from term to term of an election, for ever.
//     A resource that remembers the highest token it has seen, and refuses lower ones, is safe even if G1's
//     assumptions fail.
//   - G3 Liveness. When a leader resigns its successor leads after one notification; when it crashes, within the bound
//     that the store documents. As long as the store comes back, and is not restored from a copy that is far older, no
//     election stays without a leader: see ErrTokenRegressed.
//   - G4 Order. Candidates lead in the order in which the store received their ballots.
//   - G5 Acknowledgement. Followers hear of a leader only after it has acknowledged. They see every change of leader
//     eventually and might miss intermediate ones: the latest wins.
//   - G6 No herd. At a change of leader one candidate acts, and the number of requests it costs is bounded, however many
//     candidates wait.
//   - G7 Nothing outlives its owner. When Run or Close has returned, or Done is closed, no goroutine, watch, ballot,
//     session or connection of theirs is left, if the store can be reached and no log handler or hook hangs. (A one-shot
//     watch of ZooKeeper's might wait at the server for the next change or the session's end.)
//
// Not promised: work already under way when leadership ends is not undone. A write that the leader sent a moment
// before might arrive after its successor's first. Send the token along and let the resource refuse lower ones.
//
// Candidates, followers, terms and stores are made by their constructors and methods: the zero values of these types
// are of no use. A nil callback or function panics when it is given, a nil context when it is used.
//
// docs/guarantees.md says what each promise depends on, and which test shows it.
package leadership

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/go-leadership/leadership/store"
)

// Leader is an acknowledged leader. The zero Leader means that there is no leader.
type Leader = store.Leader

// The conditions on which a caller decides; match them with errors.Is. The first two are those of package store.
var (
	// ErrLost ends a term whose ballot is lost: the store took it or its session away, or could not confirm the session in
	// time. The candidate stands again by itself under Run and RunForElection; Campaign returns it if that happens before
	// the ballot led.
	ErrLost = store.ErrLost
	// ErrClosed says that the store under a candidate or follower has been closed: it ends Run, and followers, for good.
	// A term that it ends has a cause which matches ErrLost too.
	ErrClosed = store.ErrClosed
	// ErrNotElected refuses what only a leader may do.
	ErrNotElected = errors.New("not elected")
	// ErrResigned ends a term after Resign or Withdraw, when the leader's function has returned nil, and when an operator has
	// asked for it.
	ErrResigned = errors.New("resigned")
	// ErrRequested is the ErrResigned of a term whose end an operator has asked for: see store.Store. Campaign returns it if
	// the operator asked before the term began, at once.
	ErrRequested = fmt.Errorf("%w: %w", ErrResigned, store.ErrRequested)
	// ErrUnfit ends a term when the check of Options.Fitness fails. It matches ErrResigned. Campaign returns it if the check
	// fails before the term began.
	ErrUnfit = fmt.Errorf("%w: the candidate is unfit", ErrResigned)
	// ErrGaveWay says that the candidate was first in line and gave its ballot back to one that it prefers: see
	// Options.GiveWayTo. Campaign returns it; Run and RunForElection stand again.
	ErrGaveWay = errors.New("gave way to another candidate")
	// ErrFailed ends a term when the function given to Run, or a won callback, has returned an error, which it wraps, or has
	// panicked. Run and RunForElection report it and stand again.
	ErrFailed = errors.New("the leader's function failed")
	// ErrStopped ends terms, campaigns and followers after Stop, and a term of Run when the context of Run has ended.
	ErrStopped = errors.New("stopped")
	// ErrRunning refuses a second campaign of the same candidate while the first goes on.
	ErrRunning = errors.New("already running for this election")
	// ErrNoLease says that a ballot was first in line for a TTL and its session was not confirmed in time: no answer came,
	// or each came too late to count. The ballot is given back, so that the next in line can lead. Campaign returns it; Run and
	// RunForElection report it and stand again, at the back of the queue.
	ErrNoLease = errors.New("first in line, but the session was not confirmed in time")
	// ErrTokenRegressed refuses a ballot whose fencing token is not higher than the last one of this candidate: the
	// store has been restored to an earlier state. Resources that remember tokens would refuse its leader. The candidate
	// casts ballots until its tokens are higher. If more than 100,000 are missing, Campaign returns it, and Run waits for an
	// operator to raise the index of the service; the error says how.
	ErrTokenRegressed = errors.New("fencing token is not higher than the last")
)

// Options are settings that all candidates and followers understand. Nil stands for the zero value.
type Options struct {
	// Logger receives what happens: changes at level Info, trouble that may pass at Warn, what ends a candidate or a
	// follower and callbacks that fail at Error, the rest at Debug. The lines come from a goroutine that nothing waits for:
	// see Hooks. A handler that panics loses that line only, which the error channel and slog.Default say. For silence, give
	// a logger with slog.DiscardHandler. Default: slog.Default, when the candidate or follower is made.
	Logger *slog.Logger
	// Hooks are called as things happen, for metrics and tracing. Default: none.
	Hooks *Hooks
	// GiveWayTo has the values of candidates that are preferred to this one. When this candidate is first in line and a
	// ballot with one of these values waits, it gives its ballot back and stands again, behind all others. Having given way
	// once, it does not give way again until it has led; otherwise two could give way to each other for ever. It costs a
	// read of the queue, for which the candidate waits a quarter of the TTL at most. If the preferred candidate has crashed,
	// no candidate leads until its session has expired. A switch-over to this candidate, by package operate, comes first. A
	// follower ignores it. Default: none.
	GiveWayTo []string
	// Fitness lets a candidate stand and lead only while a check succeeds. A follower ignores it. Default: none.
	Fitness *Fitness
}
