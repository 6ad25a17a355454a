package engine

import (
	"context"
	"time"

	"github.com/go-leadership/leadership/store"
)

// Driver is a connection to one service. The engine speaks of entries: an entry is a ballot as the service keeps it.
//
// What the engine relies on:
//  1. A key's news never goes back in time, even across successive watches. The exception is a service that has lost
//     transactions, such as a database that failed over. Once a driver has proved that, it ends the watches, and new
//     watches tell what the service keeps: docs/writing-a-store.md, section 3.
//  2. A watch tells News.AsOf after all changes before that time.
//  3. Once WatchEntry has returned, a watch tells the end of an entry after the watches of its stream have told all earlier
//     ends of entries behind that entry in the queue. If one transaction ends several entries of a session, their ends
//     come in any order.
//  4. An entry that becomes visible after another entry of its election has a higher token. The Place that Enter and Ahead
//     return counts every entry with a lower token. So the set of entries ahead of an entry only shrinks.
//  5. The engine calls Enter with the same nonce until the outcome is known, and these calls make one entry. Once Void has
//     returned nil, no entry of the nonce stands, and none ever will: the engine does not call Enter with that nonce again,
//     but requests of earlier calls might still be on their way.
//  6. The service carries out Acknowledge only while the entry stands. Remove is one step, and touches nothing of others.
//  7. Proof.Valid counts from Proof.Sent, a time before the request was sent. Proofs may come in any order. A proof that is
//     no longer valid proves nothing.
//  8. WatchEntry, WatchLeader and Ahead answer by a request that was sent after the call. The first WatchEntry after an
//     Enter may tell what Enter has read, if the watch was set before. The state that WatchLeader tells is as of that
//     request, or as of the News.AsOf beside the state.
//  9. Locks are taken in the order: driver, ballot or observation. A driver may call a Tell under its own lock.
//  10. After a connection is lost, its watches tell all that they might have missed, or that they are over.
//  11. No session ends before Proof.Sent plus its TTL, unless its owner or an operator ends it.
type Driver interface {
	// Open opens a session. Keep of the last session has returned, but that session stays until End. If a driver can't have
	// two sessions, Open returns ErrUnavailable until then. The engine calls Open again after an unknown outcome, and often
	// while the service does not answer. A session whose opening had no answer ends by itself, or with Close. Before Open
	// returns an error, it stops what it has started. The zero Proof proves nothing.
	Open(ctx context.Context) (Session, Proof, error)
	// WatchEntry watches the key of an entry. It returns once the watch is set and has told a read. From then on the watch
	// tells every change, or News{Over: true}. If news makes a read useless, the engine ends ctx.
	WatchEntry(ctx context.Context, key string, tell Tell) (Watch, error)
	// WatchLeader does the same for the acknowledgement of an election.
	WatchLeader(ctx context.Context, election string, tell Tell) (Watch, error)
	// Ahead returns what is ahead of an entry that stands, or ErrGone. e.Place.Nearest has gone.
	Ahead(ctx context.Context, e Entry) (Place, error)
	// First returns the token, session and nonce of the first entry in an election's queue, or the zero State if there is
	// none. The service's leader answers, to a request that is sent after the call.
	First(ctx context.Context, election string) (State, error)
	// Confirm makes the watches of WatchLeader tell News.AsOf, the time of this call or later, once they have told all
	// changes before. Watches of WatchEntry need not. Confirm may return before that: nil says that the service answered. It
	// needs no session. The engine calls it at each pace, and for a caller that needs the present leader if WatchLeader has
	// told an AsOf before the call, as on a service whose servers answer reads by themselves.
	Confirm(ctx context.Context) error
	// RequestResignation marks the entry with this token. From then on its State says Resign, and its watch tells that.
	// errors.ErrUnsupported: the entry is another program's, or the driver can mark none.
	RequestResignation(ctx context.Context, election string, token uint64) error
	// Ballots lists the entries, the first in line first.
	Ballots(ctx context.Context, election string) ([]store.Standing, error)
	// Elections returns the names of all elections that have entries, in any order. It may return a name twice, an election
	// without entries, and what is no election's name. A driver that can't list them returns errors.ErrUnsupported.
	Elections(ctx context.Context) ([]string, error)
	Clear(ctx context.Context, election string) error // all elections if the name is empty
	Close() error                                     // all other calls have returned
}

// Session is a session of the service. All entries that are made in it go when it ends.
type Session interface {
	ID() string // what State.Session says of its entries; no other session ever has it

	// Keep renews the session, and returns nil once the service has ended it. If Keep returns an error, or ctx has ended,
	// the engine gives the session up, and calls End.
	Keep(ctx context.Context, renewed func(Proof)) error
	// End ends the session with all its entries. led are those that have been first and still stand. nil: the session has
	// ended. After an error, it ends by itself.
	End(ctx context.Context, led []Removal) error
	// Enter makes an entry, and returns it with what is ahead of it. The engine voids an entry that Enter returns, with a
	// token, beside an error. ErrGone: the entry was made and is of no use; the engine voids it.
	Enter(ctx context.Context, election string, n Nonce, value string) (Entry, error)
	// Void removes the entry of a nonce, if there is one. Requests to enter it that are still on their way fail.
	Void(ctx context.Context, election string, n Nonce) error
	// Acknowledge publishes the value as that of the election's leader, if the entry stands. It replaces another value.
	Acknowledge(ctx context.Context, e Entry, value string) (revision uint64, err error)
	// Remove removes the entry and its acknowledgement, if they are still there. If a request to enter the entry might still
	// be on its way, the engine calls Void afterwards.
	Remove(ctx context.Context, r Removal) error
}

// Proof is what a renewal proved: the session stands for the time Valid after Sent.
type Proof struct {
	Sent  store.Instant
	Valid time.Duration
	// Connection changes with each reconnection of the session's transport. The service might have been restored meanwhile,
	// so the engine looks for entries that have come back (audit.go). 0: there are no connections.
	Connection uint64
}

// Nonce names one cast. Casts that are under way at once have different slots. So one mark for each slot, the last turn that
// is void, stops requests that are still on their way from making an entry.
type Nonce struct {
	Name string // no other cast ever has it
	Slot int    // from 0 to Slots - 1
	Turn uint64 // higher than any before it in its slot
}

// Slots is how many casts are under way at once.
const Slots = 32

// Entry is a ballot as the service keeps it.
type Entry struct {
	Election string
	Key      string // no later entry ever has it
	Token    uint64
	Place    Place // when Enter answered
	Private  any   // the driver's
}

// Place is what is ahead of an entry.
type Place struct {
	Nearest string // the key of the nearest; empty if the entry is first
	More    bool   // whether there may be others ahead once that has gone
}

// Removal is an entry that goes.
type Removal struct {
	Entry
	Led          bool        // was first
	Acknowledged bool        // may have been acknowledged
	Revision     uint64      // of the last acknowledgement that is known; 0 if there is none
	Alone        func() bool // no other ballot of this session and election may have been acknowledged
}

// Tell receives what a watch tells: one call at a time for each watch. It does not block, and does not call the driver.
type Tell func(News)

// News is what a watch tells. The zero News says that something may have changed: the engine reads again.
type News struct {
	State *State
	AsOf  time.Time // the watch has told all changes before, with this State if there is one; zero: that is not known
	Over  bool      // the watch ends with this news
}

// State is that of a key.
type State struct {
	Token   uint64       // of the entry; 0 if there is none
	Session string       // of the entry: the ID of its session
	Nonce   string       // of the entry: the name of its nonce, if it was made by a driver like this
	Resign  bool         // an operator has marked the entry, so that its owner resigns
	First   bool         // the entry was acknowledged, so none is ahead of it. false: that is not known
	Leader  store.Leader // of an election
}

// Watch is a watch that has been set.
type Watch struct {
	Stream uint64 // watches of the same stream tell ends of entries in order; 0: in any order
	Stop   func() // takes the watch back; tell may still be called for a moment
}
