package fence

import "strings"

// Dialect says which SQL a database speaks.
type Dialect int

const (
	PostgreSQL Dialect = iota
	MySQL              // MariaDB, too
	SQLite
)

const defaultTable = "leadership_fence"

// Statements are those that a Fence sends, for programs in other languages. Raise and Check have two parameters, the
// election and the token, and Reset one, the election.
type Statements struct {
	Create string // once
	Raise  string // then Check in the same transaction: if there is a row, commit; if there is none, superseded
	Check  string // the last statement before the commit: if there is no row, superseded: roll back
	Reset  string // when the election moves to another store
}

// Statements returns the statements for a table, whose name they contain as it is given.
func (d Dialect) Statements(table string) Statements {
	s := map[Dialect]Statements{PostgreSQL: postgresql, MySQL: mysql, SQLite: sqlite}[d]
	for _, text := range []*string{&s.Create, &s.Raise, &s.Check, &s.Reset} {
		*text = strings.ReplaceAll(*text, defaultTable, table)
	}
	return s
}

// The collation keeps the index valid when the system's locales are upgraded.
var postgresql = Statements{
	Create: `CREATE TABLE IF NOT EXISTS leadership_fence (election text COLLATE "C" PRIMARY KEY, token bigint NOT NULL CHECK (token > 0))`,
	Raise: `INSERT INTO leadership_fence AS f (election, token) VALUES ($1, $2)
  ON CONFLICT (election) DO UPDATE SET token = EXCLUDED.token WHERE f.token <= EXCLUDED.token`,
	Check: `SELECT token FROM leadership_fence WHERE election = $1 AND token = $2 FOR SHARE`,
	Reset: `DELETE FROM leadership_fence WHERE election = $1`,
}

// A collation would make one of two names that differ in case or in trailing spaces. MariaDB has no FOR SHARE. How many
// rows an update affects depends on the connection's settings, so Check says whether the raise succeeded.
var mysql = Statements{
	Create: `CREATE TABLE IF NOT EXISTS leadership_fence (election varbinary(200) PRIMARY KEY, token bigint NOT NULL) ENGINE=InnoDB`,
	Raise: `INSERT INTO leadership_fence (election, token) VALUES (?, ?)
  ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))`,
	Check: `SELECT token FROM leadership_fence WHERE election = ? AND token = ? LOCK IN SHARE MODE`,
	Reset: `DELETE FROM leadership_fence WHERE election = ?`,
}

// A transaction that has written holds the only write lock of the file, and has read the newest data.
var sqlite = Statements{
	Create: `CREATE TABLE IF NOT EXISTS leadership_fence (election text PRIMARY KEY NOT NULL, token integer NOT NULL CHECK (token > 0))`,
	Raise: `INSERT INTO leadership_fence AS f (election, token) VALUES (?1, ?2)
  ON CONFLICT (election) DO UPDATE SET token = excluded.token WHERE f.token <= excluded.token`,
	Check: `SELECT token FROM leadership_fence WHERE election = ?1 AND token = ?2`,
	Reset: `DELETE FROM leadership_fence WHERE election = ?1`,
}
