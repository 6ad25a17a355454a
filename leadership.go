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
// # Promises
//
//   - G1 One leader. At no instant do two candidates of an election both see themselves as leader.
//   - G2 Fencing. Every term has a 64-bit token, higher than those of all earlier terms of the election.
//   - G3 Liveness. When a leader resigns, its successor leads after one notification; when it crashes, within the bound
//     that the store documents.
//   - G4 Order. Candidates lead in the order in which the store received their ballots.
//   - G5 Acknowledgement. Followers hear of a leader only after it has acknowledged. The latest state wins.
//   - G6 No herd. At a change of leader one candidate acts, at a bounded number of requests, however many wait.
//   - G7 Nothing outlives its owner. When Run or Close has returned, or Done is closed, nothing of theirs is left.
//
// G1 assumes that clocks run at the same rate to within a few per cent over one TTL, that no virtual machine is paused
// for longer than the grace, and that the store loses no renewal that it has confirmed, as an asynchronous failover may.
// docs/guarantees.md has the assumptions of each promise, and the tests that show it.
//
// Work under way when a term ends is not undone: a leader's last write might arrive after its successor's first. Send the
// token along, and let the resource refuse tokens lower than the highest it has seen.
//
// The zero values of Candidate, Follower and Term are of no use.
package leadership

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/go-leadership/leadership/store"
)

// Leader is an acknowledged leader. The zero Leader means that there is no leader.
type Leader = store.Leader

// Errors on which a caller decides; match them with errors.Is.
var (
	// ErrLost ends a term whose ballot or session is gone, or whose session was not confirmed in time.
	ErrLost = store.ErrLost
	// ErrClosed says that the store has been closed. It ends Run and followers. A term that it ends matches ErrLost, too.
	ErrClosed = store.ErrClosed
	// ErrNotElected refuses what only a leader may do.
	ErrNotElected = errors.New("not elected")
	// ErrResigned ends a term after Resign, Withdraw or End, and when the leader's function has returned nil.
	ErrResigned = errors.New("resigned")
	// ErrRequested is the ErrResigned of a term or a ballot that an operator has asked to end: see store.Store.
	ErrRequested = fmt.Errorf("%w: %w", ErrResigned, store.ErrRequested)
	// ErrUnfit is the ErrResigned of a term or a ballot that ends because the check of CandidateOptions.Fitness fails.
	ErrUnfit = fmt.Errorf("%w: the candidate is unfit", ErrResigned)
	// ErrFailed ends a term when the leader's function has panicked, or returned an error, which it wraps.
	ErrFailed = errors.New("the leader's function failed")
	// ErrStopped ends terms, campaigns and followers after Stop, and a term of Run when the context of Run has ended.
	ErrStopped = errors.New("stopped")
	// ErrRunning refuses a second call of Run or Campaign while the first, or its term, goes on.
	ErrRunning = errors.New("already running for this election")
	// ErrGaveWay says that the candidate was first and gave its ballot back: see CandidateOptions.GiveWayTo.
	ErrGaveWay = errors.New("gave way to another candidate")
	// ErrNoLease says that the candidate was first, and gave its ballot back since its session was not confirmed for a TTL.
	ErrNoLease = errors.New("first in line, but the session was not confirmed in time")
	// ErrTokenRegressed says that the store was set back, such as by a restore: its tokens are lower than this candidate's last
	// one, and fenced resources would refuse a leader. The candidate casts ballots until its tokens are higher. If more than
	// 100,000 are missing, an operator has to raise the service's index; the error says how.
	ErrTokenRegressed = errors.New("fencing token is not higher than the last")
)

// CandidateOptions are settings of a candidate. The zero value of each field stands for its default.
type CandidateOptions struct {
	// Logger receives changes at level Info, trouble that may pass at Warn, and what ends the candidate at Error. For silence,
	// give it a slog.DiscardHandler. Default: slog.Default.
	Logger *slog.Logger
	// Events is called as things happen, for metrics and tracing: see Event. Default: none.
	Events func(Event)
	// GiveWayTo has the values of candidates to prefer. When this candidate is first and a ballot with one of these values
	// waits, it gives its ballot back and stands again at the back. Having given way once, it does not do so again until it has
	// led; otherwise two could give way to each other for ever. It waits for the list of ballots for a quarter of the TTL at
	// most. If the preferred candidate has crashed, no candidate leads until its session has expired. A switch-over to this
	// candidate, by package operate, comes first. Default: none.
	GiveWayTo []string
	// Fitness lets the candidate stand and lead only while a check succeeds. Default: none.
	Fitness *Fitness
}

// FollowerOptions are settings of a follower. The zero value of each field stands for its default.
type FollowerOptions struct {
	Logger *slog.Logger // as in CandidateOptions
	Events func(Event)  // is called for changes of the leader, and for failures. Default: none
}
