// Package store is the contract between the election as a user sees it (package leadership) and the coordination
// service that holds it (store/memory, store/file, store/zookeeper, store/etcd, store/consul). Its terms are those of
// elections, not of keys and values.
//
// A user opens a store by URL ([Open]) or with the constructor of the store's package, and hands it to
// leadership.NewCandidate and leadership.NewFollower. The author of a store writes a driver for package store/engine,
// or implements [Store] and [Ballot] as the comments below say, and runs the suite in package conformance against it;
// docs/writing-a-store.md is the guide.
package store

import (
	"context"
	"os"
	"time"
)

// Store is this process's membership in a coordination service: one session, shared by all ballots that are cast through
// it, so that a thousand elections cost one heartbeat. If the session is lost, all its ballots are lost, and the store
// opens the next session by itself. A package's constructor or [Open] makes a store; zero values are of no use.
//
// All methods may be called from any number of goroutines. A method that takes a context returns soon after the context
// ends, even if the service does not answer. Match errors with errors.Is against the variables of this package. A store
// never reports a plain failure if the service might have acted: the error matches [ErrUnknownOutcome]. Before a store
// sends anything, it checks names with [CheckElection] and values with [CheckValue].
type Store interface {
	// Cast casts a ballot with the given value in the election. It blocks until the service has confirmed the ballot, not
	// until the ballot is first: [Ballot].Wait does that. Cast sends a request again whose outcome is unknown. After some
	// time without an answer it may give up with [ErrUnavailable], so that its caller can report that. After any error, no
	// ballot of this call stands, or the store withdraws it in the background. Two ballots of one process in one election
	// are two candidates.
	Cast(ctx context.Context, election, value string) (Ballot, error)

	// Observe returns the acknowledged leader, and as of when that is right. The zero Leader means that there is none. If
	// prev is nil, Observe reads the leader now: the answer reflects every acknowledgement, resignation and removal that the
	// service had confirmed to its client before the call began. Otherwise it is a long poll: it returns as soon as the leader
	// differs from prev's, or is known to be right as of a later time. Changes that come faster than the calls are
	// coalesced: the latest wins. Neither the leader nor AsOf ever goes back from one call to the next. Observe writes
	// nothing. An outage is not an error: the call waits until the outage is over.
	//
	// If the service confirmed a change to its client before AsOf, the call reflects that change. So AsOf must not advance
	// while news of a change has not been read. While the service answers, successive calls return an AsOf that is no
	// older than half a TTL and two round trips.
	Observe(ctx context.Context, election string, prev *Known) (Known, error)

	// Ballots lists the ballots that stand in the election, first in line first. Like Elections, it is for operators and
	// tests: its cost grows with the length of the list.
	Ballots(ctx context.Context, election string) ([]Standing, error)

	// Elections lists the names of the elections below the store's path, sorted: all in which a ballot stands throughout the
	// call. On ZooKeeper and in a directory it also lists elections without ballots, until Clear removes them. The error
	// matches [errors.ErrUnsupported] if the service can't list elections.
	Elections(ctx context.Context) ([]string, error)

	// RequestResignation asks the owner of the ballot with this token to resign: see [Store.Ballots] for the tokens. A leader
	// stops its work and then gives its ballot back, so that no two leaders overlap. The owner of a ballot that waits gives
	// it back at once, and stands again at the back of the queue.
	//
	// RequestResignation returns nil once the service keeps the request, or if no such ballot stands. It does not wait for
	// the resignation. The request does not apply to later ballots of the same owner. The error matches
	// [errors.ErrUnsupported] if the ballot is [Standing].Foreign.
	RequestResignation(ctx context.Context, election string, token uint64) error

	// Clear removes all that the service keeps of an election, of every process: the acknowledgement, and the ballots, so
	// that their candidates stand again. If the name is empty it removes all keys below the store's path, and the path.
	// Tokens go on growing. Clear blocks until all is known to be gone. It is for operators, and for tests on a shared
	// service.
	Clear(ctx context.Context, election string) error

	// Worked reports whether the service has ever cast a ballot for this store, or answered a read of an election. Until
	// then, callers take a denial that lasts for a permanent error, even if the service opens sessions; afterwards they
	// try again after each denial. It does not block.
	Worked() bool

	// TTL returns how long the service keeps a session that is not renewed. It does not block.
	TTL() time.Duration

	// Close ends the session and with it all ballots, makes pending and later calls return [ErrClosed], and returns when
	// no goroutine, watch or connection of the store is left, after a few seconds at most. If the service can't be reached,
	// the session ends there after its TTL. Close loses the ballots first, so that their terms say why they end; then it
	// ends the lease, and last the session. Closing twice is allowed.
	Close() error
}

// Ballot is one candidacy. It stands from Cast until it is withdrawn or lost.
type Ballot interface {
	// Token is the fencing token: the service's index of the ballot's creation. It is higher than that of every ballot
	// that led this election before, even if all keys of the election have been removed in between.
	Token() uint64

	// Wait returns nil once this ballot is first in line, Err once it is lost, [ErrRequested] once an operator has asked its
	// owner to resign, or the cause of ctx. A lost ballot is never first. A ballot that was asked to resign stands until its
	// owner gives it back. To lead, a ballot has to be first and its lease has to hold. One change of leader wakes one
	// waiting ballot.
	Wait(ctx context.Context) error

	// Acknowledge publishes the value as that of the election's leader, in one step that the service carries out only while
	// the ballot stands. Before Wait has returned nil, it fails with [ErrNotFirst]. The service binds the acknowledgement to
	// the ballot's session. Its Revision is higher than all before it. Acknowledging again is safe, as after an unknown
	// outcome. Acknowledge replaces an acknowledgement that has outlived its ballot. It fails, with an error that names the
	// session, if a session that lives and never had a ballot in this queue holds the acknowledgement: another program might
	// lead.
	Acknowledge(ctx context.Context, value string) (Leader, error)

	// Withdraw removes the ballot and its acknowledgement in one step and returns nil once they are known to be gone. If
	// ctx ends before that, Withdraw returns an error, and the store tries again in the background while the session
	// lives. It never touches later ballots or the acknowledgements of others. It is idempotent.
	Withdraw(ctx context.Context) error

	// Lease is the time for which the ballot's session is certain to stand. Ballots of one session share it.
	Lease() *Lease

	// Lost is closed once the ballot can never lead, or lead again: it was withdrawn, another client has removed it, or its
	// session has ended. The store might learn of that late; the lease ends in time.
	Lost() <-chan struct{}

	// Err is nil until Lost is closed, and then an error that says why and matches [ErrLost]; if the store was closed,
	// [ErrClosed] as well.
	Err() error

	// ResignationRequested is closed when the store learns that an operator has asked the ballot's owner to resign: see
	// [Store.RequestResignation].
	ResignationRequested() <-chan struct{}

	// SessionFile returns an open file. While a process has the file open, the session does not end with this process, but
	// at its deadline. Give the file to a child process whose work has to be over before another candidate leads. It does
	// not keep a session that is closed or lost. The caller closes it. It is nil if the sessions of this store don't end
	// with their process, as on services over a network without a lifeline: docs/lifeline.md. The error matches [ErrLost]
	// if the session is over.
	SessionFile() (*os.File, error)
}

// Leader is an acknowledged leader. The zero Leader means that there is none.
type Leader struct {
	Value    string // exactly the bytes that the leader acknowledged with
	Revision uint64 // grows with every acknowledgement in the election; 0 if there is no leader
}

// Known is what a store knows of an election's leader.
type Known struct {
	Leader Leader
	AsOf   time.Time // local time as of which it is right: never later than a moment at which it was
}

// Standing is a ballot as the service lists it.
type Standing struct {
	Value   string // what it was cast with
	Token   uint64 // its fencing token
	Asked   bool   // its owner was asked to resign: see [Store.RequestResignation]
	Foreign bool   // another program's recipe cast it, and its owner takes no requests to resign

	// Silence is how long ago the ballot's session was renewed last, by the service's clock. It is 0 in a store whose
	// service ends sessions by itself, and negative if the service can't tell. It is for people, and for deciding whether to
	// wait on: no lease depends on it.
	Silence time.Duration
}
