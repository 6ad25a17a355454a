package engine

import (
	"context"
	"errors"
	"time"

	"github.com/go-leadership/leadership/store"
)

// Errors of a driver besides those of package store. [store.ErrUnknownOutcome] says that a request may have been carried
// out, or may be later; [store.ErrUnavailable] that it was not and will not be. The engine sends both again. Other errors
// are final. A method whose context ends before the answer comes returns soon, with one of these two.
//
// Each of these two means that the service does not answer, unless [Answered] marks the error. The engine then lets
// some four requests a second through until one is answered, and logs the outage. A driver does not log it, and leaves
// nothing behind that goes on asking.
var (
	// ErrGone says that the entry does not stand: it was made and has gone, or is of no use. Enter, Ahead, Acknowledge.
	ErrGone = errors.New("the entry does not stand")
	// ErrOver says that the service has ended the session, and all its entries with it. Any method of a session.
	ErrOver = errors.New("the session has ended")
)

// Driver is a connection to one service. The engine speaks of entries: an entry is a ballot as the service keeps it.
//
// What the engine relies on:
//  1. What is told of one key never goes back in time, not from one watch of the key to the next either. Only a service
//     that has lost transactions goes back, such as a database that failed over. Once a driver has proved that, it ends
//     the watches, and new ones tell what the service keeps: docs/writing-a-store.md, section 3.
//  2. News.AsOf is told after all news of changes before that time.
//  3. Once WatchEntry has returned, a watch tells the end of an entry after the watches of its stream have told all earlier
//     ends of entries behind it in the queue. Ends of one session's entries in one transaction may come in any order.
//  4. An entry that becomes visible after another of its election has a higher token. The place that Enter and Ahead tell
//     counts every entry with a lower token. So the set of entries ahead of one only shrinks.
//  5. The engine calls Enter with the same nonce until the outcome is known, and these calls make one entry. Once Void has
//     returned nil, no entry of the nonce stands or ever will: Enter is not called with it again, but requests of earlier
//     calls may still be on their way.
//  6. Acknowledge is carried out only while the entry stands. Remove is one step, and touches nothing of others.
//  7. Proof.Valid counts from Proof.Sent, which is before the request was sent. Proofs may be told in any order, and one
//     that is not valid proves nothing.
//  8. WatchEntry, WatchLeader and Ahead answer by a request that was sent after they were called. The first WatchEntry
//     after an Enter may tell what that read, if the watch was set before. What WatchLeader tells is as of then, or as of
//     the News.AsOf that it says.
//  9. Locks are taken in the order: driver, ballot or observation. tell may be called under the driver's.
//  10. When a connection is lost, all that its watches might have missed is told, or that they are over.
//  11. No session ends before Proof.Sent plus its TTL, unless its owner or an operator ends it.
type Driver interface {
	// Open opens a session. Keep of the last session has returned, but that session might not have ended: it stays until
	// End. If there can't be two, Open returns ErrUnavailable until then. After an unknown outcome Open is called again: a
	// session that was opened without an answer ends by itself or with Close. The zero Proof proves nothing. Open is called
	// often while the service does not answer: what it has started ends before it returns an error.
	Open(ctx context.Context) (Session, Proof, error)
	// WatchEntry watches the key of an entry. It returns when the watch is set and a read has been told; from then on every
	// change is told, or News{Over: true}. If news makes a read useless, the engine ends ctx.
	WatchEntry(ctx context.Context, key string, tell Tell) (Watch, error)
	// WatchLeader does the same for the acknowledgement of an election.
	WatchLeader(ctx context.Context, election string, tell Tell) (Watch, error)
	// Ahead returns what is ahead of an entry that stands, or ErrGone. e.Place.Nearest has gone.
	Ahead(ctx context.Context, e Entry) (Place, error)
	// First returns the state of the entry that is first in the queue of an election, with its token, session and nonce, by
	// a request that is sent after the call and that the service's leader answers. The zero State: there is none.
	First(ctx context.Context, election string) (State, error)
	// Confirm makes the watches of WatchLeader tell News.AsOf, the time of this call or later, once they have told all that
	// happened before. Those of WatchEntry need not tell it. It may return earlier: nil says that the service answered. It needs
	// no session. The engine calls it at each pace, and for a caller that needs the present leader, if WatchLeader has said
	// an AsOf before the call: a driver whose servers answer reads by themselves does.
	Confirm(ctx context.Context) error
	// RequestResignation marks the entry with this token: from then on its State says Resign, and its watch tells that. An
	// entry of another program is refused with errors.ErrUnsupported, as are all by a driver that can mark none.
	RequestResignation(ctx context.Context, election string, token uint64) error
	Ballots(ctx context.Context, election string) ([]store.Standing, error) // the first in line first
	Clear(ctx context.Context, election string) error                       // all elections if the name is empty
	Close() error                                                           // all other calls have returned
}

// Session is a session of the service. All entries that are made in it go when it ends.
type Session interface {
	ID() string // what State.Session says of its entries; no other session ever has it

	// Keep renews the session until it is over, and then returns nil. If it returns an error, or ctx has ended, the
	// session is given up: the engine calls End.
	Keep(ctx context.Context, renewed func(Proof)) error
	// End ends the session with all its entries. led are those that have been first and still stand. If it returns nil, the
	// session has ended. If it returns an error, the session ends by itself.
	End(ctx context.Context, led []Removal) error
	// Enter makes an entry, and returns what is ahead of it. If it returns an error with an entry that has a token, the
	// entry stands, and the engine voids it. ErrGone: the entry was made and is of no use; the engine voids it too.
	Enter(ctx context.Context, election string, n Nonce, value string) (Entry, error)
	// Void removes the entry of a nonce, if there is one, and makes requests to enter it fail that are on their way.
	Void(ctx context.Context, election string, n Nonce) error
	// Acknowledge makes the value that of the election's leader, if the entry stands. It replaces what is there.
	Acknowledge(ctx context.Context, e Entry, value string) (revision uint64, err error)
	// Remove removes the entry, and its acknowledgement, if they are still there. If a request to enter it may still be on
	// its way, the engine calls Void after it.
	Remove(ctx context.Context, r Removal) error
}

// Proof is what a renewal proved: the session stands for the time Valid after Sent.
type Proof struct {
	Sent  store.Instant
	Valid time.Duration
	// Connection is another number after each reconnection of the session's transport: the service might have been restored
	// meanwhile, so the engine looks for entries that have come back (audit.go). 0 if there are no connections.
	Connection uint64
}

// Nonce names one cast. Casts that are under way at once have different slots: one mark for each slot, the last turn that
// is void, keeps requests on their way from making an entry.
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

// Tell tells a watcher: one call at a time for each watch. It does not block, and does not call the driver.
type Tell func(News)

// News is what a watch tells. The zero News says: something may have changed, read again.
type News struct {
	State *State
	AsOf  time.Time // all that happened before has been told, with this State if there is one; zero: that is not known
	Over  bool      // the watch tells no more
}

// State is that of a key.
type State struct {
	Token   uint64       // of the entry; 0 if there is none
	Session string       // of the entry: the ID of its session
	Nonce   string       // of the entry: the name of its nonce, if it was made by a driver like this
	Resign  bool         // an operator has marked the entry: its owner resigns
	First   bool         // none is ahead of the entry, or ever will be: it was acknowledged. false: that is not known
	Leader  store.Leader // of an election
}

// Watch is a watch that has been set.
type Watch struct {
	Stream uint64 // watches of the same stream tell of ends in order; 0: in any order
	Stop   func() // takes the watch back; tell may still be called for a moment
}
