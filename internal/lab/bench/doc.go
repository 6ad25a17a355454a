// Package bench holds the benchmarks of the library against real servers. There is nothing in it to import.
//
// Absolute times say more about a machine's disk and scheduler than about this library. So the benchmarks of latency
// also measure a floor in the same run, in turn with the library: the fewest requests with which a program on the
// server's plain client can do the same. What counts is the metric "ratio", the library's median divided by the
// floor's. No benchmark fails because it is slow.
//
//	go test -run '^$' -bench . ./internal/lab/bench
//	go test -run '^$' -bench 'Resign/etcd|Crash' -benchtime 10s -count 5 ./internal/lab/bench
//
//	BenchmarkResign         from the call of Resign until the successor's IsLeader is true
//	BenchmarkFollower       from the call of Resign until a follower is told of the successor, which has acknowledged
//	BenchmarkCrash          from the leader's SIGKILL until the successor's IsLeader is true
//	BenchmarkCast       casting a ballot on an open session
//	BenchmarkAcknowledge    from the call of Acknowledge until a follower in another session knows
//	BenchmarkHerd           requests and time that a change of leader costs, by the number of candidates
//	BenchmarkIdle           requests per second of a process in which nothing happens, by the number of elections
//	BenchmarkScale          goroutines, memory and processor time by the number of elections led or followed, and the time
//	                        until all are led and until all is closed
//	BenchmarkIsLeader       the question on the hot path, and BenchmarkTimeNow, one reading of the clock
//	BenchmarkIsLeaderRatio  the two in turn
//
// Each benchmark is written once and runs on each service, which is described in the file of its name.
//
// The store of a directory has no server and no connections. Its benchmarks run between processes of this machine:
//
//	BenchmarkFileResign     from the call of Resign until IsLeader is true in another process
//	BenchmarkFileCrash      from the SIGKILL of a leader with a small heap until another process leads
//	BenchmarkFileFollower   from the call of Acknowledge until a follower in another process is told
//	BenchmarkFileCast   casting a ballot behind one other, and behind 1,000
//	BenchmarkFileHerd       the hand-over with 10 and with 1,000 candidates
//	BenchmarkFileIdle       the share of a processor, with 1, 200 and 10,000 elections
//
// Their floor is a rename until another process's inotify fires.
//
// # Metrics
//
// Those of latency are medians, of as many measurements as -benchtime asks for:
//
//	floor-µs, ours-µs, ratio  the floor, the library, and the second divided by the first
//	three-, alone-            variants of the library, with a ratio to the same floor; the benchmark says what they are
//	zk.Lock-, api.Lock-, concurrency.Election-
//	                          the peer: what the plain client has for elections, with a ratio to the same floor
//	round-trips               requests that followed one another until Campaign returned
//	requests                  all that were sent for one ballot, those in the background too
//
// Those of BenchmarkCrash are p50-s and max-s, of eight leaders each time, bound-s, what the store promises, and
// max-ratio, the maximum divided by that. Those of BenchmarkHerd, BenchmarkIdle and BenchmarkScale are explained there.
//
// # What is counted
//
// Requests and notifications are counted on the wire, in the bytes that pass over a connection:
//
//	zookeeper  each request of the protocol, pings included, is one, and each event of a watch is a notification
//	etcd       each gRPC message that the client sends is one: a call, a renewal of the lease, a watch that is set or
//	           taken back; each message with events is a notification
//	consul     each HTTP request is one, blocking queries included, and the answer of a blocking query a notification
//
// The moment at which IsLeader turns true is taken when Campaign returns, by the goroutine that made it so, which checks
// that it is. So the time is never too early, and includes the rest of Campaign. A loop that polls IsLeader would see the
// change a few microseconds sooner, and take a processor away from the server and the clients.
//
// Each measurement begins when nothing has passed over the connections for some milliseconds. Right after another
// request everything is faster, and not everything by the same amount.
package bench
