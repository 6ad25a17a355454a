package servers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	_ "github.com/go-leadership/leadership/store/all"
	_ "github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { storetest.Main(m, func() { _ = os.RemoveAll(built) }) }

// service is a service with one server.
type service interface {
	Addrs() []string
	Member(int) *testserver.Member
}

// trial is an election on a service.
type trial struct {
	*testing.T
	program, url, election string
}

// on returns the same on another election.
func (t trial) on(election string) trial {
	t.election = election
	return t
}

// start starts the command.
func (t trial) start(args ...string) *running {
	t.Helper()
	r := &running{cmd: exec.Command(t.program, args...)}
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.errs
	r.cmd.Env = append(os.Environ(), "LEADERSHIP_STORE="+t.url, "LEADERSHIP_ELECTION="+t.election, "LEADERSHIP_TIMEOUT="+storetest.Watchdog.String())
	require.NoError(t, r.cmd.Start())
	t.Cleanup(func() { r.cmd.Process.Kill(); r.wait() })
	return r
}

// exits runs the command, and returns what it prints. It fails if it has another exit code.
func (t trial) exits(code int, args ...string) string {
	t.Helper()
	r := t.start(args...)
	require.Equal(t, code, r.wait(), "leadership %q: %s%s", args, &r.out, &r.errs)
	if code != 0 {
		require.NotEmpty(t, r.errs.String())
	}
	return r.out.String()
}

// running is a process.
type running struct {
	cmd       *exec.Cmd
	out, errs buffer
	once      sync.Once
}

// wait returns its exit code.
func (r *running) wait() int {
	r.once.Do(func() { _ = r.cmd.Wait() })
	return r.cmd.ProcessState.ExitCode()
}

// buffer is read while it is written.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// stands lets a candidate stand until the test ends, or the function that is returned is called.
func (t trial) stands(value string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	st, err := store.Open(ctx, t.url, &store.Options{Logger: log})
	require.NoError(t, err)
	c, err := leadership.NewCandidate(st, t.election, value, &leadership.CandidateOptions{Logger: log})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() {
		ended <- c.Run(ctx, func(leading context.Context, term *leadership.Term) error {
			return leadership.Lead(leading, term)
		})
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-ended
		_ = st.Close()
	})
	t.Cleanup(stop)
	return stop
}

// tokens returns the tokens of the ballots, the first in line first.
func (t trial) tokens() (tokens []string) {
	t.Helper()
	var list struct {
		Ballots []struct {
			Token uint64 `json:",string"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(t.exits(0, "ballots", "--json")), &list))
	for _, b := range list.Ballots {
		tokens = append(tokens, "--token="+strconv.FormatUint(b.Token, 10))
	}
	return tokens
}

// count waits until there are so many ballots.
func (t trial) count(ballots int) {
	t.Helper()
	t.until(func() bool { return len(t.tokens()) == ballots }, fmt.Sprint(ballots, " ballots"))
}

// until waits until a condition holds which starts a process.
func (t trial) until(condition func() bool, what string) {
	t.Helper()
	for end := time.Now().Add(storetest.Watchdog); !condition(); time.Sleep(200 * time.Millisecond) {
		require.False(t, time.Now().After(end), "it did not happen: %s", what)
	}
}

var (
	sharedZooKeeper = storetest.Shared(testserver.StartZooKeeper, testserver.ZooKeeperConfig{
		Extra: map[string]string{"maxSessionTimeout": "60000", "forceSync": "no"},
	})
	sharedEtcd     = storetest.Shared(testserver.StartEtcd, testserver.EtcdConfig{Extra: []string{"--unsafe-no-fsync"}})
	sharedConsul   = storetest.Shared(testserver.StartConsul, testserver.ConsulConfig{})
	sharedPostgres = storetest.Shared(testserver.StartPostgres, testserver.PostgresConfig{})
)

// kinds are the services, which all tests share. A test that takes its time in a session's end has a TTL of its own.
var kinds = map[string]func(testing.TB) service{
	"zookeeper": func(t testing.TB) service { return sharedZooKeeper(t) },
	"etcd":      func(t testing.TB) service { return sharedEtcd(t) },
	"consul":    func(t testing.TB) service { return sharedConsul(t) },
	"postgres":  func(t testing.TB) service { return sharedPostgres(t) },
}

// address returns a URL of a service.
func address(kind string, s service, path, ttl string) string {
	if kind == "postgres" { // TestPostgresRoles has the schema of the default name
		return "postgres://" + testserver.PostgresUser + "@" + s.Addrs()[0] + "/postgres" + path + "?schema=servers&ttl=" + ttl
	}
	return kind + "://" + s.Addrs()[0] + path + "?ttl=" + ttl
}

// built is the directory of the command, which TestMain removes.
var built string

// build builds the command, once.
func build(t *testing.T) (path string) {
	if built == "" {
		dir, err := os.MkdirTemp("", "leadership-")
		require.NoError(t, err)
		output, err := exec.Command("go", "build", "-o", dir+"/leadership", "github.com/go-leadership/leadership/cmd/leadership").CombinedOutput()
		require.NoError(t, err, "%s", output)
		built = dir
	}
	return built + "/leadership"
}

// TestServers comes before the tests that run in parallel: it freezes and kills the servers.
func TestServers(t *testing.T) {
	path := build(t)
	for kind, start := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			place := "/one%20path"
			if kind == "consul" { // whose agents refuse most characters in a prefix
				place = "/one-path"
			}
			steer(trial{t, path, address(kind, s, place, "30s"), "db/primary one/ü"}, s.Member(0))
		})
	}
}

func steer(t trial, server *testserver.Member) {
	// There is no leader.
	t.exits(1, "leader")
	t.exits(1, "assert", "--token=1")
	t.exits(1, "stepdown", "--yes")
	require.Contains(t, t.exits(0, "ballots"), "no candidate stands")

	// One leads, with a value that would clear a terminal; then another.
	const value = "a\x1b[2J\nb"
	watch := t.start("watch")
	waiting := t.start("leader", "--wait=1m")
	stopFirst := t.stands(value)
	require.Zero(t, waiting.wait(), &waiting.errs)
	require.Equal(t, value+"\n", waiting.out.String())
	first := t.tokens()
	t.exits(0, "assert", first[0])
	stopSecond := t.stands("second")
	t.count(2)
	require.Regexp(t, `^second leads with token \d+, `, t.exits(0, "stepdown", "--yes", "--timeout=1m"))
	t.exits(1, "assert", first[0])
	storetest.Eventually(t, func() bool { return strings.HasSuffix(watch.out.String(), "leader  second\n") }, "watch prints the leader")
	require.Contains(t, watch.out.String(), `leader  "a\x1b[2J\nb"`)

	// The server is frozen: the commands exit with 69, also if they began to wait before.
	second := t.tokens()
	none := t.on("none")
	for wait := 3 * time.Second; ; wait *= 2 {
		began := time.Now()
		waiting = none.start("leader", "--wait="+wait.String(), "--timeout=1s")
		none.exits(1, "leader") // by now the one that waits has had its first answer, too
		require.NoError(t, server.Pause())
		if time.Since(began) < wait {
			break // it still waits
		}
		require.NoError(t, server.Resume())
	}
	t.exits(69, "assert", "--timeout=500ms", second[0])
	t.exits(69, "assert", "--timeout=500ms", first[0])
	t.exits(69, "leader", "--timeout=500ms")
	t.exits(69, "ballots", "--timeout=500ms")
	t.exits(69, "stepdown", "--yes", "--timeout=500ms")
	t.exits(69, "clear", "--yes", "--timeout=500ms")
	t.exits(69, "watch", "--timeout=500ms")
	require.Equal(t, 69, waiting.wait(), &waiting.errs)
	require.NoError(t, server.Resume())

	// The server is killed and started again: commands that wait or watch go on.
	waiting = none.start("leader", "--wait=1m", "--timeout=1m")
	t.exits(0, "leader", "--wait=1m", "--timeout=1m")
	require.NoError(t, server.Kill())
	t.exits(69, "assert", "--timeout=500ms", second[0])
	require.NoError(t, server.Start(t.Context()))
	t.exits(0, "leader", "--wait=1m", "--timeout=1m")
	none.stands("third")
	require.Zero(t, waiting.wait(), &waiting.errs)
	require.Equal(t, "third\n", waiting.out.String())
	t.count(2)
	t.exits(0, "stepdown", "--yes", "--timeout=1m")
	leader := strings.TrimSuffix(t.exits(0, "leader", "--wait=1m"), "\n")
	if leader == value {
		leader = strconv.Quote(value)
	}
	storetest.Eventually(t, func() bool { return strings.HasSuffix(watch.out.String(), "leader  "+leader+"\n") }, "watch prints the leader")
	require.NoError(t, watch.cmd.Process.Signal(syscall.SIGTERM))
	require.Zero(t, watch.wait())

	// A candidate whose ballot is cleared stands again, with a higher token.
	before := t.tokens()
	t.exits(0, "clear", "--yes")
	for _, token := range before {
		t.exits(1, "assert", token)
	}
	t.exits(0, "leader", "--wait=1m")
	stopFirst()
	stopSecond()
	require.Empty(t, t.tokens())
}
