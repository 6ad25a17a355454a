package bench

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/file"
	"github.com/stretchr/testify/require"
)

// fileService is a directory. It is not one of services, since it has no connections to count on.
var fileService = &service{
	name:  "file",
	start: func(b *testing.B) string { return b.TempDir() + "/store" },
	open: func(directory string, ttl time.Duration, _ dialFunc) (store.Store, error) {
		return file.Open(file.Config{Directory: directory, TTL: ttl})
	},
}

const fileElection = "election"

func newDirectory(b *testing.B) *server { return &server{fileService, fileService.start(b)} }

func (s *server) newMember(b *testing.B) *other {
	return newOther(b, roleMember, otherDirectory+"="+s.address)
}

// pause waits until the processes are quiet. If there are connections, awaitQuiet does that.
func pause() { time.Sleep(5 * rest) }

// renames is the floor: the time from a rename until inotify fires in another process.
type renames struct {
	dir     string
	watcher *other
	n       int
}

func newRenames(b *testing.B) *renames {
	r := &renames{dir: b.TempDir()}
	require.NoError(b, os.WriteFile(r.dir+"/0", nil, 0o666))
	r.watcher = newOther(b, roleWatcher, otherDirectory+"="+r.dir)
	r.watcher.answer(b)
	return r
}

func (r *renames) measure(b *testing.B) time.Duration {
	pause()
	start := monotonic()
	require.NoError(b, os.Rename(fmt.Sprint(r.dir, "/", r.n), fmt.Sprint(r.dir, "/", r.n+1)))
	r.n++
	return r.watcher.answer(b) - start
}

// BenchmarkFileResign measures the hand-over from one process to another: from the call of Resign until IsLeader is true
// there.
func BenchmarkFileResign(b *testing.B) {
	s := newDirectory(b)
	floor := &series{measure: newRenames(b).measure}
	here, there := newContender(b, s.openStore(b, ttl, s.newWire()), fileElection, "here"), s.newMember(b)
	here.stand(b)
	here.lead(b)
	ours := &series{measure: func(b *testing.B) time.Duration {
		there.ask(b, "stand")
		pause()
		start := monotonic()
		require.NoError(b, here.term.Withdraw(b.Context()))
		took := there.answer(b) - start
		here.stand(b)
		pause()
		there.ask(b, "resign")
		here.lead(b)
		return took
	}}
	interleave(b, floor, ours)
	reportRatio(b, floor, ours)
	b.ReportMetric(microseconds(quantile(floor.took, 0.99)), "floor-p99-µs")
	b.ReportMetric(microseconds(quantile(ours.took, 0.99)), "p99-µs")
}

// BenchmarkFileFollower measures how soon a follower in another process knows the leader: from the call of Acknowledge
// until its Events is called.
func BenchmarkFileFollower(b *testing.B) {
	s := newDirectory(b)
	floor := &series{measure: newRenames(b).measure}
	there := s.newMember(b)
	known := make(chan time.Duration, 1)
	f, err := leadership.NewFollower(s.openStore(b, ttl, s.newWire()), fileElection, &leadership.FollowerOptions{Events: func(e leadership.Event) {
		if e.Kind == leadership.LeaderChanged && e.Leader.Revision != 0 {
			known <- monotonic()
		}
	}})
	require.NoError(b, err)
	b.Cleanup(f.Stop)
	f.Start()
	ours := &series{measure: func(b *testing.B) time.Duration {
		there.ask(b, "stand")
		there.answer(b)
		pause()
		took := -there.ask(b, "acknowledge")
		took += receive(b, known, "the follower to know")
		there.ask(b, "resign")
		return took
	}}
	interleave(b, floor, ours)
	reportRatio(b, floor, ours)
}

// BenchmarkFileCrash measures from the SIGKILL of a leader with a small heap until another process leads.
func BenchmarkFileCrash(b *testing.B) {
	s := newDirectory(b)
	floor := &series{measure: newRenames(b).measure}
	st := s.openStore(b, ttl, s.newWire())
	ours := &series{measure: func(b *testing.B) time.Duration {
		there, here := s.newMember(b), newContender(b, st, fileElection, "here")
		there.ask(b, "stand")
		there.answer(b)
		there.ask(b, "acknowledge")
		here.stand(b)
		pause()
		start := time.Now()
		require.NoError(b, there.Process.Kill())
		at := here.takeOver(b)
		require.NoError(b, here.term.Withdraw(b.Context()))
		return at.Sub(start)
	}}
	interleave(b, floor, ours)
	reportRatio(b, floor, ours)
	b.ReportMetric(microseconds(quantile(ours.took, 0.99)), "p99-µs")
}

// BenchmarkFileCast measures how long Store.Cast takes behind others, until the ballot has been cast.
func BenchmarkFileCast(b *testing.B) {
	for _, ahead := range []int{1, 1000} {
		b.Run(fmt.Sprint("ahead=", ahead), func(b *testing.B) {
			s := newDirectory(b)
			newQueue(b, s, fileElection, ahead, min(ahead, 5), time.Hour, "v")
			st := s.openStore(b, time.Hour, s.newWire())
			floor := &series{measure: newRenames(b).measure}
			ours := &series{measure: func(b *testing.B) time.Duration {
				pause()
				start := time.Now()
				ballot, err := st.Cast(b.Context(), fileElection, "v")
				took := time.Since(start)
				require.NoError(b, err)
				require.NoError(b, ballot.Withdraw(b.Context()))
				return took
			}}
			interleave(b, floor, ours)
			reportRatio(b, floor, ours)
		})
	}
}

// BenchmarkFileHerd measures the hand-over in an election with many candidates, who share five sessions.
func BenchmarkFileHerd(b *testing.B) {
	for _, candidates := range []int{10, 1000} {
		b.Run(fmt.Sprint("candidates=", candidates), func(b *testing.B) {
			s := newDirectory(b)
			floor := &series{measure: newRenames(b).measure}
			ours := &series{measure: newQueue(b, s, fileElection, candidates, 5, time.Hour, "v").handover}
			interleave(b, floor, ours)
			reportRatio(b, floor, ours)
		})
	}
}

// BenchmarkFileIdle measures the share of a processor that an idle process uses, in one election and in many, and how
// long it took to begin.
func BenchmarkFileIdle(b *testing.B) {
	for _, role := range []string{roleLeading, roleWaiting, roleFollowing} {
		for _, n := range []int{1, 200, 10_000} {
			if n > 200 && role != roleLeading {
				continue
			}
			b.Run(fmt.Sprintf("%s/elections=%d", role, n), func(b *testing.B) {
				s := newDirectory(b)
				if role != roleLeading {
					s.newMember(b).ask(b, fmt.Sprint(roleLeading, " ", n))
				}
				there := s.newMember(b)
				began := time.Now()
				there.ask(b, fmt.Sprint(role, " ", n))
				took := time.Since(began)
				time.Sleep(ttl / 2) // until the work at the start is done
				used, began := there.ask(b, "processor"), time.Now()
				for b.Loop() {
					time.Sleep(idleFor) // what is measured: nothing happens
				}
				share := ratio(there.ask(b, "processor")-used, time.Since(began))
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(100*share, "%-of-a-processor")
				b.ReportMetric(microseconds(took)/float64(n), "µs/election")
			})
		}
	}
}
