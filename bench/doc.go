// Package bench holds the benchmarks of the library against real servers. There is nothing in it to import.
//
// Absolute times say more about a machine's disk and scheduler than about this library. So the benchmarks of latency
// measure in the same run, in turn with the library, a floor: the fewest requests that any program on a plain client
// of the same server could do the job with. What counts is the metric "ratio", the library's median divided by the
// floor's. Nothing here fails for being slow; a benchmark fails only where something does not work.
//
//	go test -run '^$' -bench . ./bench
//	go test -run '^$' -bench 'Resign|Crash' -benchtime 10s -count 5 ./bench
//
//	BenchmarkResign         from the call of Resign until the successor's IsLeader is true
//	BenchmarkCrash          from the leader's SIGKILL until the successor's IsLeader is true
//	BenchmarkCampaign       casting a ballot on an open session
//	BenchmarkAcknowledge    from the call of Acknowledge until a follower in another session knows
//	BenchmarkHerd           requests and time that a change of leader costs, by the number of candidates
//	BenchmarkIdle           requests per second of a process in which nothing happens, by the number of elections
//	BenchmarkIsLeader       the question on the hot path, and BenchmarkTimeNow, one reading of the clock
//	BenchmarkIsLeaderRatio  the two in turn
//
// The moment at which IsLeader turns true is taken when Campaign returns, by the goroutine that made it so, which checks
// that it is. The time is thus never too early, and includes what Campaign still does after that. A loop that polls
// IsLeader would see it a few microseconds sooner, and take a processor away from the server and the clients that are
// being measured.
//
// Each measurement begins after some milliseconds in which nothing passes over the connections concerned: right after
// another request everything would be faster, for one that measures several things by different amounts.
package bench
