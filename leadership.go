// Package leadership elects one leader among many processes and tells everyone who it is.
//
// A process that wants to lead makes a [Candidate]; one that only wants to know who leads makes a [Follower]. Both use
// a [store.Store]: a session in ZooKeeper, etcd, Consul, PostgreSQL, a local directory, or memory, chosen by URL.
//
//	st, err := store.Open(ctx, "zookeeper://10.0.0.1:2181,10.0.0.2:2181/?ttl=10s", nil)
//	c, err := leadership.NewCandidate(st, "database/primary", "dbhost2:4567", nil)
//	err = c.Run(ctx, func(ctx context.Context, term *leadership.Term) error {
//		if err := becomePrimary(ctx, term.Token()); err != nil {
//			return err
//		}
//		if err := term.Acknowledge(ctx); err != nil { // followers learn of us now
//			return err
//		}
//		return servePrimary(ctx) // ctx ends when leadership does
//	})
//
// # Promises
//
//   - G1 One leader. No two candidates ever both see themselves as leader.
//   - G2 Fencing. Every term has a 64-bit token, higher than all before it.
//   - G3 Liveness. The successor leads one notification after a resignation, or when a crashed leader's session expires.
//   - G4 Order. Candidates lead in the order of their ballots.
//   - G5 Acknowledgement. Followers hear of a leader once it has acknowledged.
//   - G6 No herd. At a change one candidate acts, however many wait.
//   - G7 Nothing outlives its owner: after Run, Close or Done, nothing is left.
//
// G1 assumes that clocks run at the same rate to within a few per cent over one TTL, that no virtual machine is paused
// for longer than the grace, and that the store loses no renewal that it has confirmed. docs/guarantees.md has the
// assumptions of each promise, and its tests.
//
// Work under way when a term ends is not undone: a leader's last write might arrive after its successor's first. Send the
// token along, and let the resource refuse tokens lower than the highest it has seen.
//
// The zero values of Candidate, Follower and Term are of no use; a zero field of options stands for its default.
package leadership

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/go-leadership/leadership/store"
)

// Leader is an acknowledged leader. The zero Leader stands for none.
type Leader = store.Leader

// Errors on which a caller decides; match them with errors.Is.
var (
	// ErrLost ends a term whose ballot or session is gone, or whose session was not confirmed in time.
	ErrLost = store.ErrLost
	// ErrClosed says that the store was closed. It ends Run and followers. The cause of a term that it ends matches ErrLost.
	ErrClosed = store.ErrClosed
	// ErrNotElected refuses what only a leader may do.
	ErrNotElected = errors.New("not elected")
	// ErrResigned ends a term after Resign, Withdraw or End, and when the leader's function has returned nil.
	ErrResigned = errors.New("resigned")
	// ErrRequested ends a term or a ballot when an operator asks for it: see store.Store. It matches ErrResigned.
	ErrRequested = fmt.Errorf("%w: %w", ErrResigned, store.ErrRequested)
	// ErrUnfit ends a term or a ballot when the check of CandidateOptions.Fitness fails. It matches ErrResigned.
	ErrUnfit = fmt.Errorf("%w: the candidate is unfit", ErrResigned)
	// ErrFailed ends a term when the leader's function panics, or returns an error, which it wraps.
	ErrFailed = errors.New("the leader's function failed")
	// ErrStopped ends terms, campaigns and followers after Stop, and a term of Run when the context of Run has ended.
	ErrStopped = errors.New("stopped")
	// ErrRunning refuses a second call of Run or Campaign while the first, or its term, goes on.
	ErrRunning = errors.New("already running for this election")
	// ErrGaveWay ends the ballot of a candidate that was first: see CandidateOptions.GiveWayTo.
	ErrGaveWay = errors.New("gave way to another candidate")
	// ErrNoLease ends the ballot of a candidate that was first, and whose session was not confirmed for a TTL.
	ErrNoLease = errors.New("first in line, but the session was not confirmed in time")
	// ErrTokenRegressed says that the store was set back, such as by a restore, and gives tokens that fenced resources refuse.
	// The candidate casts ballots until its tokens are higher; if more than 100,000 are missing, the error says what to do.
	ErrTokenRegressed = errors.New("fencing token is not higher than the last")
)

// CandidateOptions are settings of a candidate.
type CandidateOptions struct {
	// Logger receives changes at level Info, trouble that might pass at Warn, and what ends the candidate at Error. Default:
	// slog.Default.
	Logger *slog.Logger
	// Events is called for each Event, for metrics and tracing. Default: none.
	Events func(Event)
	// GiveWayTo has the values of candidates to prefer. If one of them waits when this candidate is first, this candidate stands
	// again at the back, once until it has led: two that give way to each other come to an end. If the preferred candidate
	// has crashed, there is no leader until its session expires. A switch-over by package operate comes first. Default: none.
	GiveWayTo []string
	// Fitness lets the candidate stand and lead only while a check succeeds. Default: none.
	Fitness *Fitness
}

// FollowerOptions are settings of a follower.
type FollowerOptions struct {
	Logger *slog.Logger // as in CandidateOptions
	Events func(Event)  // is called for LeaderChanged and AttemptFailed. Default: none
}
