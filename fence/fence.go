// Package fence keeps the late writes of an old leader out of an SQL database: PostgreSQL, MySQL and MariaDB, or SQLite.
// It uses database/sql alone, with the driver that the program imports.
//
// A leader that was frozen, or whose clock is wrong, might write after the next leader has taken over. So a row per
// election holds the fencing token of the newest leader:
//
//   - A new leader raises the row to its token, before it acknowledges.
//   - Each transaction of a leader takes a shared lock on the row, as its last statement before the commit, and requires
//     that the row has the leader's token. Otherwise it is rolled back.
//
// The shared lock conflicts with the raise. So a transaction is committed before the next leader's raise, or not at all, at
// any isolation level and whatever the clocks say. A comparison without the lock does not promise that, not even in a
// serializable transaction.
//
//	fences, err := fence.New(db, fence.PostgreSQL, nil)
//	if err != nil {
//		return err
//	}
//	if err := fences.Create(ctx); err != nil { // once, or with the program's other tables: without the table no leader gets far
//		return err
//	}
//	lead := func(ctx context.Context, term *leadership.Term) error {
//		leader, err := fences.Leader(ctx, term) // raises
//		if err != nil {
//			return err
//		}
//		if err := term.Acknowledge(ctx); err != nil {
//			return err
//		}
//		return fences.Tx(ctx, leader, nil, func(tx *sql.Tx) error {
//			_, err := tx.ExecContext(ctx, "UPDATE jobs SET state = 'done' WHERE id = 7")
//			return err
//		})
//	}
//
// What to look out for:
//   - A leader that is frozen between the check and the commit holds the lock, and the next leader's raise waits. Bound both:
//     docs/sql-fence.md names the settings.
//   - The row and what the leader writes are in the same database: in SQLite in the same file, and in a cluster that accepts
//     writes on several nodes, written through the same node, since such clusters do not share row locks.
//   - SQLite: give each connection a busy_timeout, and let transactions begin with BEGIN IMMEDIATE. Otherwise SQLITE_BUSY
//     comes at once. docs/sql-fence.md has the data source name.
//   - MySQL and MariaDB: the tables that the leader writes need an engine with transactions, such as InnoDB.
//   - A failover of the database to a replica that lacks the last transactions might lose a raise.
package fence

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"regexp"
)

// ErrSuperseded says that the fence does not have this token: a later leader has raised it, or this one has not, or the
// fence was reset. The leader's term is over, or will be soon. No other error means that: after a serialization failure, a
// deadlock or SQLITE_BUSY, try the whole transaction again.
var ErrSuperseded = errors.New("a later leader has raised the fence")

// maxName is the length of the longest name of an election, in bytes: the key of the table in MySQL.
const maxName = 200

var tableName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*\.)?[A-Za-z_][A-Za-z0-9_]*$`)

// Options of New. The zero value has the defaults.
type Options struct {
	// Table holds a row per election: a name of ASCII letters, digits and underscores, after a schema and a dot if wanted.
	// The default is leadership_fence.
	Table string
}

// Fence is a table of a database with a row per election. Its methods may be called from any number of goroutines.
type Fence struct {
	db         *sql.DB
	dialect    Dialect
	statements Statements
}

// New returns the fence of a database, which stays the caller's to close. New sends nothing. It refuses an unknown dialect
// and a table whose name would have to be quoted. Nil options are the defaults.
func New(db *sql.DB, d Dialect, o *Options) (*Fence, error) {
	if o == nil {
		o = &Options{}
	}
	if d < PostgreSQL || d > SQLite {
		return nil, fmt.Errorf("fence: unknown dialect %d", int(d))
	}
	table := cmp.Or(o.Table, defaultTable)
	if !tableName.MatchString(table) {
		return nil, fmt.Errorf("fence: table %q: use ASCII letters, digits and underscores", o.Table)
	}
	return &Fence{db: db, dialect: d, statements: d.Statements(table)}, nil
}

// Create creates the table if it does not exist. If several processes call it at the same time, PostgreSQL might refuse
// all but one of them with a unique violation: call it again, or create the table with the program's other tables.
func (f *Fence) Create(ctx context.Context) error {
	if _, err := f.db.ExecContext(ctx, f.statements.Create); err != nil {
		return fmt.Errorf("create the fence's table: %w", err)
	}
	return nil
}

// Raise raises the fence of an election to the token. After Raise has returned nil, no transaction with a lower token is
// committed any more. A leader calls it, or Leader, before it acknowledges and before it reads what it goes on from.
//
// Raise waits for transactions between their check and their commit, until ctx ends or the database's lock timeout. It
// returns ErrSuperseded if the fence has a higher token. After any other error the fence might have been raised: to raise
// it again to the same token does no harm.
//
// Raise refuses a token of 0 or above math.MaxInt64, which the column can't hold, and a name that is empty or longer than
// 200 bytes.
func (f *Fence) Raise(ctx context.Context, election string, token uint64) error {
	if err := valid(election, token); err != nil {
		return err
	}
	err := f.transact(ctx, nil, election, token, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, f.statements.Raise, f.key(election), int64(token))
		return err
	})
	if err != nil {
		return fmt.Errorf("raise the fence of %q to %d: %w", election, token, err)
	}
	return nil
}

// Check returns nil if the fence has exactly this token, and keeps it so until the transaction ends. Call it as the last
// statement before the commit: if called earlier, the next leader's raise waits for the rest of the transaction. After an
// error, roll back. Check does not end the transaction.
//
// It returns ErrSuperseded if the fence has another token or none. Check refuses the tokens and names that Raise refuses.
func (f *Fence) Check(ctx context.Context, tx *sql.Tx, election string, token uint64) error {
	if err := valid(election, token); err != nil {
		return err
	}
	if err := f.check(ctx, tx, election, token); err != nil {
		return fmt.Errorf("check the fence of %q for %d: %w", election, token, err)
	}
	return nil
}

// Tx calls do in a transaction with the options o, checks the fence last, and commits. If do or the check fails, Tx rolls
// back and returns the error, and ErrSuperseded if a later leader has raised the fence. After any other error, the
// transaction might have been committed, as with every commit whose answer is lost.
//
// Tx does not try again: after a serialization failure, a deadlock or SQLITE_BUSY, call it again. Do must not write with a
// *sql.DB, and must not end the transaction: with MySQL and MariaDB, CREATE TABLE and the like commit what was written before.
func (f *Fence) Tx(ctx context.Context, l *Leader, o *sql.TxOptions, do func(*sql.Tx) error) error {
	if err := valid(l.election, l.token); err != nil {
		return err
	}
	return f.transact(ctx, o, l.election, l.token, do)
}

// Reset forgets the token of an election, when the election moves to a store whose tokens can't be compared with the
// last one's. Call it after all candidates have stopped, and before the first starts on the other store: until the next
// raise all leaders are refused, and then a leader of either store might raise.
func (f *Fence) Reset(ctx context.Context, election string) error {
	if _, err := f.db.ExecContext(ctx, f.statements.Reset, f.key(election)); err != nil {
		return fmt.Errorf("reset the fence of %q: %w", election, err)
	}
	return nil
}

// Leader is what a leader writes with in one term. Its fence has been raised: there is no other way to get one.
type Leader struct {
	election string
	token    uint64
}

// Term is a term of an election, such as a leadership.Term.
type Term interface {
	Election() string
	Token() uint64
}

// Leader raises the fence of the term's election to its token, see Raise, and returns what Tx needs.
func (f *Fence) Leader(ctx context.Context, term Term) (*Leader, error) {
	l := &Leader{election: term.Election(), token: term.Token()}
	if err := f.Raise(ctx, l.election, l.token); err != nil {
		return nil, err
	}
	return l, nil
}

// Token is the term's fencing token.
func (l *Leader) Token() uint64 { return l.token }

func (f *Fence) transact(ctx context.Context, o *sql.TxOptions, election string, token uint64, do func(*sql.Tx) error) error {
	tx, err := f.db.BeginTx(ctx, o)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // also if do panics; after the commit it does nothing
	if err := do(tx); err != nil {
		return err
	}
	if err := f.check(ctx, tx, election, token); err != nil {
		return err
	}
	return tx.Commit()
}

func (f *Fence) check(ctx context.Context, tx *sql.Tx, election string, token uint64) error {
	var found int64
	err := tx.QueryRowContext(ctx, f.statements.Check, f.key(election), int64(token)).Scan(&found)
	if errors.Is(err, sql.ErrNoRows) {
		return ErrSuperseded
	}
	return err
}

// key is the election's name as the column has it. MySQL would convert a string to the connection's character set.
func (f *Fence) key(election string) any {
	if f.dialect == MySQL {
		return []byte(election)
	}
	return election
}

func valid(election string, token uint64) error {
	if election == "" || len(election) > maxName {
		return fmt.Errorf("fence: the name of an election has 1 to %d bytes, not %d", maxName, len(election))
	}
	if token == 0 || token > math.MaxInt64 {
		return fmt.Errorf("fence: token %d is not between 1 and %d", token, int64(math.MaxInt64))
	}
	return nil
}
