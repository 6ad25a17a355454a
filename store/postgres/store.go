// Package postgres elects in a database of PostgreSQL 14 or later. Ballots are rows, in the order of their tokens. Each
// candidate watches the ballot before its own, by LISTEN and NOTIFY.
//
//	import _ "github.com/go-leadership/leadership/store/postgres"
//	st, err := store.Open(ctx, "postgres://app@db1:5432,db2:5432/app?ttl=10s", nil)
//
// or [Open] with a [Config]. Options of the URL: ttl, grace, passwordenv, passwordfile and schema; with the scheme
// postgres+tls also cacert, cert, key and servername. The path of the URL is the database; what comes behind it, as in
// /app/prod, is before the names of all elections.
//
// The first candidate creates the schema "leadership" and what is in it, if its role may create schemas. Otherwise the
// owner of the database does that once, with the text of [Schema], which "leadership schema postgres" prints. At its
// end are the rights that candidates and followers need.
//
// The acknowledged values are in the view leadership.leader, for clients in any language.
//
// A crashed leader is replaced within 5/4 of its TTL and a second; if many candidates crash with it, within half a TTL
// more, and a TTL for each two hundred of them. PostgreSQL ends no session by itself: its peers do, by their own clocks.
// If no candidate is there, those that come later end the session together, however short each stays. A session ends
// early only if its row is deleted. A term also ends if its ballot's row is deleted.
//
// If a server fails over, the last transactions might be lost. Tokens and revisions go on above all earlier ones, and
// no ballot is cast for as long as the longest TTL of any session so far. A primary that is cut off and goes on
// confirms its leader, unless each commit waits for the standby that is promoted: see docs/guarantees.md.
//
// The fencing token is a number of a sequence, with the count of such failovers in its upper bits, and so is a leader's
// revision. For writes into the same database, [Fence] is exact.
//
// docs/backends.md compares the stores, and has the limits of each.
package postgres

import (
	"github.com/go-leadership/leadership/store/engine"
)

// Store is one session in a database. It implements store.Store.
type Store struct{ *engine.Engine }

// Open opens a store. It checks the settings; it does not wait for the service.
func Open(config Config) (*Store, error) {
	d, err := newDriver(config)
	if err != nil {
		return nil, err
	}
	return &Store{engine.New(d, engine.Settings{
		Name: d.life.Name, TTL: d.config.TTL, Pace: d.config.TTL / 4,
		RemovedReason: "its row was deleted", Logger: d.config.Logger, Renewed: d.config.Renewed,
		RaiseTokens: "as the owner of the schema, SELECT setval('leadership.numbers', N)",
	})}, nil
}

var (
	_ engine.Driver  = (*driver)(nil)
	_ engine.Session = (*session)(nil)
)
