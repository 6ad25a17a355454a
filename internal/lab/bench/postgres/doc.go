// Package postgres holds the benchmarks of elections with PostgreSQL: this library, and what a user would take otherwise.
// There is nothing in it to import. docs/postgres-figures.md has the results. It is a module of its own so that the
// library does not require the others.
//
//	go test -run '^$' -bench . -timeout 2h ./internal/lab/bench/postgres
//	go test -run '^$' -bench 'HandOver|Incident/lock' -timeout 1h ./internal/lab/bench/postgres
//
//	BenchmarkHandOver    from the leader's orderly end until the next candidate knows that it leads
//	BenchmarkFollower    from there until a follower in a third process is told of the next leader; ours alone
//	BenchmarkCandidates  the hand-over by the number of candidates; ours alone
//	BenchmarkIncident    what follows when something happens to a leader, and whether two lead
//	BenchmarkChange      statements that a change of the leader costs, by the number of candidates
//	BenchmarkIdle        statements, bytes of the write-ahead log and connections at rest, by the number of candidates
//	BenchmarkElections   the same by the number of elections in one process, and processor time
//	BenchmarkFence       a transaction of one INSERT, with postgres.Fence and without; ours alone
//
// The contenders are run as their users run them:
//
//	leadership  this library with store/postgres
//	try_lock    a session-level advisory lock that is tried every second, written by hand
//	lock        the same with the call that waits
//	pglock      cirello.io/pglock
//	river       github.com/riverqueue/river, whose clients elect one for maintenance
//
// gocron has no elector on PostgreSQL. Its locker on gorm locks each run of a job, and elects no leader.
//
// Each benchmark starts servers of its own, with Debian's defaults: a commit waits for the disk. Statements are counted by
// pg_stat_statements. The metrics of time are medians and the slowest value but one. The floor, which BenchmarkHandOver
// measures in turn with each contender, is one commit that notifies, until another connection is told.
//
// TestContenders runs each contender once.
package postgres
