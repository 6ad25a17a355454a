package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// A mortal is a process that leads, with a lifeline of its own, until it dies.
const (
	roleMortal     = "mortal"
	mortalURL      = "LEADERSHIP_BENCH_URL"
	mortalElection = holderElection
)

func init() { roles[roleMortal] = beMortal }

// beMortal leads, and does what it is told: to have a heap, to panic, to run out of memory.
func beMortal() error {
	debug.SetTraceback("none")
	known := make(logs, 16) // has room for all lines
	log := slog.New(slog.NewTextHandler(known, &slog.HandlerOptions{Level: slog.LevelDebug}))
	st, err := store.Open(context.Background(), os.Getenv(mortalURL), &store.Options{Logger: log})
	if err != nil {
		return err
	}
	c, err := leadership.NewCandidate(st, os.Getenv(mortalElection), "mortal", nil)
	if err != nil {
		return err
	}
	if err := takeOver(c); err != nil {
		return err
	}
	<-known
	fmt.Println(0)
	var heap [][]byte
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		command, n, _ := strings.Cut(lines.Text(), " ")
		switch command {
		case "heap": // MiB
			mebibytes, _ := strconv.Atoi(n)
			heap = append(heap, touched(mebibytes<<20))
		case "panic":
			panic("the benchmark says so")
		case "oom": // in a cgroup with less memory
			for {
				heap = append(heap, touched(1<<20))
			}
		}
		fmt.Println(len(heap))
	}
	return nil
}

// logs is a log that sends when the lifeline knows the session.
type logs chan struct{}

// Write implements io.Writer.
func (l logs) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(`msg="the lifeline has answered"`)) {
		l <- struct{}{}
	}
	return len(line), nil
}

// touched returns memory that the kernel has to free.
func touched(n int) []byte {
	memory := make([]byte, n)
	for i := 0; i < n; i += 4096 {
		memory[i] = 1
	}
	return memory
}

// BenchmarkLifeline measures how long an election is without a leader when its leader's process dies, and has a
// lifeline of its own: from the signal, or the order to panic, until a successor in this process leads. Beside it are a
// resignation, and the floor. An OOM kill takes cgroups of version 1, which the benchmark may change.
func BenchmarkLifeline(b *testing.B) {
	for _, c := range []struct {
		*service
		members int
		start   func(b *testing.B, members int) []string
		options string
	}{
		{zooKeeper, 1, mortalZooKeepers, ""}, {zooKeeper, 3, mortalZooKeepers, ""},
		{etcdService, 1, mortalEtcds, ""}, {etcdService, 3, mortalEtcds, ""},
		{consulService, 1, mortalConsuls, ""}, {consulService, 3, mortalConsuls, ""},
	} {
		b.Run(fmt.Sprintf("%s/servers=%d", c.name, c.members), func(b *testing.B) {
			addresses := c.start(b, c.members)
			measureLifeline(b, &server{c.service, addresses[0]}, c.name+"://"+strings.Join(addresses, ",")+"/?ttl=10s")
		})
	}
}

func mortalZooKeepers(b *testing.B, members int) []string {
	return testserver.NewZooKeeper(b, testserver.ZooKeeperConfig{Members: members, TickTime: time.Second}).Addrs()
}

func mortalEtcds(b *testing.B, members int) []string {
	return testserver.NewEtcd(b, testserver.EtcdConfig{Members: members}).Addrs()
}

func mortalConsuls(b *testing.B, members int) []string {
	return testserver.NewConsul(b, testserver.ConsulConfig{Members: members, Extra: `limits { http_max_conns_per_client = 10000 }`}).Addrs()
}

func measureLifeline(b *testing.B, s *server, url string) {
	st, err := store.Open(b.Context(), url, nil)
	require.NoError(b, err)
	b.Cleanup(func() { _ = st.Close() })
	resigning, err := store.Open(b.Context(), url, nil)
	require.NoError(b, err)
	b.Cleanup(func() { _ = resigning.Close() })

	floor := &series{measure: newFloor(b, s).deletion}
	resign := &series{measure: func(b *testing.B) time.Duration {
		leader, successor := newContender(b, resigning, "resign", "leader"), newContender(b, st, "resign", "successor")
		leader.stand(b)
		leader.takeOver(b)
		successor.stand(b)
		pause()
		began := time.Now()
		require.NoError(b, leader.term.Withdraw(b.Context()))
		led := successor.takeOver(b).Sub(began)
		require.NoError(b, successor.term.Withdraw(b.Context()))
		return led
	}}
	all := []*series{floor, resign}
	names := []string{"floor", "resign"}
	deaths := 0
	for name, die := range map[string]func(b *testing.B, o *other){
		"kill":        func(b *testing.B, o *other) { require.NoError(b, o.Process.Kill()) },
		"kill256MiB":  func(b *testing.B, o *other) { require.NoError(b, o.Process.Kill()) },
		"kill1024MiB": func(b *testing.B, o *other) { require.NoError(b, o.Process.Kill()) },
		"panic":       func(b *testing.B, o *other) { o.tell(b, "panic") },
		"oom":         func(b *testing.B, o *other) { o.tell(b, "oom") },
	} {
		if name == "oom" && memoryGroup(b, "probe") == "" {
			b.Log("no cgroup for memory: there is no figure for an OOM kill")
			continue
		}
		names = append(names, name)
		all = append(all, &series{measure: func(b *testing.B) time.Duration {
			deaths++
			election := fmt.Sprint("mortal/", deaths)
			there := newOther(b, roleMortal, mortalURL+"="+url+"&lifeline=self", mortalElection+"="+election)
			here := newContender(b, st, election, "here")
			there.answer(b)
			if _, size, ok := strings.Cut(strings.TrimSuffix(name, "MiB"), "kill"); ok && size != "" {
				there.ask(b, "heap "+size)
			}
			if name == "oom" {
				group := memoryGroup(b, fmt.Sprint(deaths))
				require.NoError(b, os.WriteFile(filepath.Join(group, "memory.limit_in_bytes"), []byte("128M"), 0o600))
				require.NoError(b, os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(there.Process.Pid)), 0o600))
			}
			here.stand(b)
			began := time.Now()
			die(b, there)
			led := here.takeOver(b).Sub(began)
			require.NoError(b, here.term.Withdraw(b.Context()))
			return led
		}})
	}
	interleave(b, all...)
	for i, series := range all {
		b.ReportMetric(microseconds(series.median()), names[i]+"-µs")
		b.ReportMetric(microseconds(quantile(series.took, 0.99)), names[i]+"-p99-µs")
	}
}

// memoryGroup returns a cgroup of version 1 that limits memory, which ends with the benchmark, or "".
func memoryGroup(b *testing.B, name string) string {
	group := fmt.Sprintf("/sys/fs/cgroup/memory/leadership-bench-%d-%s", os.Getpid(), name)
	if os.Mkdir(group, 0o755) != nil {
		return ""
	}
	b.Cleanup(func() {
		for range 1000 { // until its processes have gone
			if os.Remove(group) == nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	if _, err := os.Stat(filepath.Join(group, "memory.limit_in_bytes")); err != nil {
		return ""
	}
	return group
}
