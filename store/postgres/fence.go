package postgres

import (
	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// Condition is a statement that fails, and the transaction with it, unless a ballot stands. It works with every client
// that writes parameters as $1:
//
//	_, err := tx.Exec(ctx, stands.SQL, stands.Args...)
type Condition struct {
	SQL  string
	Args []any
}

// Gone is the SQLSTATE of the statement's error if the ballot has gone.
const Gone = "LD001"

// Fence returns the condition that the ballot stands, for a leader's own transactions in the database that elects it.
// Run its statement anywhere in the transaction, but in no savepoint. Fence sends nothing. Call it with the ballot of a
// term:
//
//	stands, err := postgres.Fence(term.Ballot())
//
// The statement locks the ballot's row until the transaction ends. So the row is deleted before, and the statement
// fails, or after the transaction has ended. The ballot was first when the term began, and no other is first before the
// row has been deleted. So no transaction with this statement commits after the next leader has taken over, whatever
// the clocks say: no lease or clock is read.
//
// What to look out for:
//   - The next leader waits for the transaction. So the statement sets idle_in_transaction_session_timeout to a quarter
//     of the TTL for this transaction, unless it is shorter, and tcp_user_timeout, for a leader that does not read an
//     answer: if the leader stands still inside the transaction for longer, the server ends the connection and the
//     transaction. A statement that runs for long delays the next leader as long, and so do transactions that overlap.
//     PostgreSQL has no timeout for a leader that stands still while it sends the rows of COPY FROM STDIN, or a large
//     argument: the next leader waits until pg_terminate_backend ends that.
//   - In a transaction that is REPEATABLE READ or SERIALIZABLE the statement might fail with SQLSTATE 40001. Begin the
//     whole transaction again: if the ballot has gone, the statement then fails with [Gone].
//   - A savepoint that is rolled back takes the lock back, and the transaction might commit without it. Nested
//     transactions of many clients, tx.Begin of pgx among them, are savepoints.
//   - After an error of COMMIT, the transaction might have been carried out. Send it again only with the statement,
//     and only if it does no harm to carry it out twice.
//   - The condition holds until the ballot is given back: also while the term is over and the leader's work winds down.
//     Ask IsLeader first to stop early.
//   - The program's connection must be to the same database, and its role needs USAGE on the schema and EXECUTE on its
//     function fence.
//   - A server that fails over to a standby which lacks the last transactions, or is restored, might have a ballot
//     again that had gone.
//
// Fence refuses with store.ErrNotFirst a ballot whose Wait has not returned nil, and with errors.ErrUnsupported a
// ballot of another store.
func Fence(b store.Ballot) (Condition, error) { return adapter.Condition[Condition](b, "PostgreSQL") }

// Condition implements engine.Conditioner.
func (s *session) Condition(e engine.Entry) any {
	return Condition{SQL: "SELECT " + s.driver.config.Schema + ".fence($1, $2)", Args: []any{s.id, int64(e.Token)}}
}
