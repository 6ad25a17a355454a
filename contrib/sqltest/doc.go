// Package sqltest tests package fence on PostgreSQL, MariaDB and SQLite. It is a module of its own so that the library
// does not require the drivers, and exports nothing.
package sqltest
