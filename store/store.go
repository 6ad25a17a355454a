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

// Store is this process's membership in a coordination service: one session, shared by all the ballots cast through
// it, so that a thousand elections cost one heartbeat. When the session is lost all its ballots are lost; the store
// opens the next session by itself.
//
// A store is made by its package's constructor or by [Open]. The zero values of those types are of no use.
//
// All methods may be called from any number of goroutines at once. A method that takes a context returns soon after the
// context ends, even if the service does not answer. Match errors with errors.Is against the variables of this package.
// [ErrUnknownOutcome] says that the request might have been carried out; no store reports a plain failure if the
// service might have acted.
//
// Before anything is sent, a store checks names with [CheckElection] and values with [CheckValue].
type Store interface {
	// Cast casts a ballot with the given value in the election. It blocks until the service has confirmed the ballot, and
	// does not wait until the ballot is first: [Ballot].Wait does. If the outcome of a request is unknown, Cast tries again
	// by itself. It might give up with [ErrUnavailable] after some time without an answer, so that its caller can say so.
	// After an error, [ErrUnavailable] too, no ballot of this call stands, or the store finds and withdraws it in the
	// background.
	// Casting twice in one election is allowed: the two ballots are two candidates.
	Cast(ctx context.Context, election, value string) (Ballot, error)

	// Observe returns the acknowledged leader, and as of when that is right: at once if prev is nil, otherwise as soon as
	// the leader differs from prev's, or is known to be right as of a later time. The zero Leader means that there is no
	// leader. With prev nil it reflects every acknowledgement, resignation and removal that the service had carried out,
	// and confirmed to its client, before the call began.
	//
	// It is a long poll: nothing to drain, nothing to close, and changes that come faster than the calls are coalesced,
	// the latest wins. What it returns never goes back in time from one call to the next, neither the leader nor AsOf. It
	// writes nothing to the service. An outage is not an error: the call waits until the outage is over.
	//
	// AsOf is never later than a moment at which this leader was right: if a change was confirmed to its client before
	// AsOf, the call reflects it. So AsOf must not advance while news of a change has not been read. While the service
	// answers, calls that follow each other return an AsOf that is no older than half a TTL and two round trips, if the
	// connection is the store's own.
	Observe(ctx context.Context, election string, prev *Known) (Known, error)

	// Ballots lists the ballots that stand in the election, first in line first. An election without ballots
	// has none. It is meant for operators and tests; its cost grows with the number of ballots.
	Ballots(ctx context.Context, election string) ([]Standing, error)

	// Elections lists the names of the elections below the store's path, sorted. Every election in which a ballot stands
	// all the time of the call is listed. An election without ballots might be listed too: on ZooKeeper and in a directory,
	// until Clear removes it. It is meant for operators; its cost grows with the number of elections. An error matches
	// [errors.ErrUnsupported] if the service can't list them.
	Elections(ctx context.Context) ([]string, error)

	// RequestResignation asks the owner of the ballot with this token to resign: see [Store.Ballots] for the tokens that
	// stand. The leader's work is stopped first, and then it gives its ballot back, so that no two leaders overlap. The
	// owner of a ballot that still waits gives it back at once, and stands again at the back of the queue.
	//
	// It returns nil once the service keeps the request, and also if no such ballot stands. It does not wait for the
	// resignation. The request does not apply to later ballots of the same owner. A ballot of another program's recipe,
	// [Standing].Foreign, is refused with an error that matches [errors.ErrUnsupported].
	RequestResignation(ctx context.Context, election string, token uint64) error

	// Clear removes all that the service keeps of an election, of every process: the ballots, so that their candidates
	// stand again, and the acknowledgement. If the name is empty it removes all keys below the store's path, and the
	// path itself. Tokens go on growing. It blocks until all is known to be gone. It is meant for operators, and for tests
	// on a shared service.
	Clear(ctx context.Context, election string) error

	// Worked reports whether the service has ever cast a ballot for this store, or answered a read of an election. Until
	// then, callers take a denial that lasts for a permanent error, even if the service opens sessions; afterwards they
	// try again after each denial. It does not block.
	Worked() bool

	// TTL returns how long the service keeps a session that is not renewed, as the store's settings have it. It does not
	// block.
	TTL() time.Duration

	// Close ends the session and with it all ballots, makes pending and later calls return [ErrClosed], and returns
	// when no goroutine, watch or connection of the store is left. It takes a few seconds at most; if the service can't
	// be reached, the session ends there by itself after its TTL. Closing twice is allowed. The ballots are lost first,
	// so that their terms say why they end, then the lease is ended, and last the session is given up.
	Close() error
}

// Ballot is one candidacy. It stands from Cast until it is withdrawn or lost.
type Ballot interface {
	// Token is the fencing token: the service's own index of the ballot's creation. It is higher than that of every
	// ballot which led this election before, even if all keys of the election have been removed in between.
	Token() uint64

	// Wait blocks until this ballot is first in line and returns nil, or until it is lost and returns Err, or until
	// ctx ends and returns its cause. It returns [ErrRequested] as soon as the store learns that an operator has asked the
	// owner to resign: the ballot stands until the owner gives it back. A ballot that is both first and lost is lost, one
	// that is both first and asked is asked. Being first is not enough to lead: the lease has to hold too. One change of
	// leader wakes one waiting ballot.
	Wait(ctx context.Context) error

	// Acknowledge makes the value public as that of the election's leader, in one step that the service carries out
	// only while the ballot stands. The caller has seen Wait return nil; otherwise it is refused with [ErrNotFirst]. An
	// acknowledgement that outlived its ballot is replaced. One of a session that never had a ballot in this queue
	// might be that of another program that leads: if that session lives, Acknowledge fails with an error that names
	// it. The acknowledgement is bound to the ballot's session by the service itself. Acknowledging again, after an
	// unknown outcome say, is safe. Its Revision is higher than all before it.
	Acknowledge(ctx context.Context, value string) (Leader, error)

	// Withdraw removes the ballot and its acknowledgement in one step and returns nil once they are known to be gone.
	// If ctx ends before that, it returns an error, and the store goes on trying in the background as long as the
	// session lives. It never touches later ballots or the acknowledgements of others. It is idempotent.
	Withdraw(ctx context.Context) error

	// Lease is the time for which the ballot's session is certain to stand. Ballots of one session share it.
	Lease() *Lease

	// Lost is closed once the ballot can never lead, or lead again: withdrawn, removed by another client, or its
	// session has ended. It closes when the store learns of that, which might be late; the lease ends in time.
	Lost() <-chan struct{}

	// Err is nil until Lost is closed, and then an error that says why and matches [ErrLost]; if the store was
	// closed, [ErrClosed] too.
	Err() error

	// ResignationRequested is closed when the store learns that an operator has asked the ballot's owner to resign: see
	// [Store.RequestResignation].
	ResignationRequested() <-chan struct{}

	// SessionFile returns an open file that keeps the ballot's session from ending with this process: as long as some
	// process has the file open, the session goes on until its deadline. Give it to a child process whose work has to
	// be over before another candidate leads. The file has no other use, and does not keep a session that is closed or
	// lost. The caller closes it. It is nil if the sessions of this store don't end with their process, as on services over
	// a network without a lifeline: docs/lifeline.md. An error matches ErrLost if the session is over.
	SessionFile() (*os.File, error)
}

// Leader is an acknowledged leader. The zero Leader means that there is no leader.
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

	// Silence is how long ago the ballot's session was renewed last, by the service's own clock. It is 0 in a store whose
	// service ends sessions by itself: a ballot that stands there is of a session that was renewed within the TTL. It is
	// negative if the service can't tell. It is for people, and for deciding whether to wait on: no lease depends on it.
	Silence time.Duration
}
