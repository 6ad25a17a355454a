package servers_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/stretchr/testify/require"
)

var old = flag.String("old", "", "`path` of the command of another version; by default that of this version: scripts/upgrade builds one")

// TestUpgrade: two versions stand in one election, ask each other's leaders to resign, and take over from each other when
// a leader ends or is killed. Each command of a leader holds a lock, and notes its token: no two run at once, and tokens
// grow.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	path := build(t)
	before := cmp.Or(*old, path)
	for kind, start := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ttl := "30s"
			if kind == "postgres" {
				ttl = "12s" // for which it waits when a leader is killed: it has no lifeline
			}
			url := address(kind, start(t), "/upgrade", ttl)
			upgrade(upgraded{trial{t, path, url, "db/primary"}, trial{t, before, url, "db/primary"}, t.TempDir()})
		})
	}
}

// upgraded is an election in which two versions stand.
type upgraded struct {
	trial         // by the present version
	before trial  // by the other one
	dir    string // has the lock and the tokens
}

func upgrade(u upgraded) {
	t := u.trial
	a := u.run(u.before, "a")
	u.leads("a")
	b := u.run(t, "b")
	u.wait(2)
	a.ends(t, syscall.SIGTERM)
	u.leads("b")
	c := u.run(u.before, "c")
	u.wait(2)

	require.Regexp(t, `^c leads with token \d+, `, u.before.exits(0, "stepdown", "--yes", "--timeout=1m"))
	u.leads("c")
	u.wait(2)
	require.Regexp(t, `^b leads with token \d+, `, t.exits(0, "stepdown", "--yes", "--timeout=1m"))
	u.leads("b")
	u.wait(2)

	b.ends(t, syscall.SIGKILL)
	u.leads("c")
	d := u.run(t, "d")
	u.wait(2)
	c.ends(t, syscall.SIGKILL)
	u.leads("d")
	d.ends(t, syscall.SIGTERM)
	u.wait(0)
	u.check()
}

// run lets a candidate of a version stand. Its command notes the token, or that another command runs.
func (u upgraded) run(by trial, value string) *running {
	lock, tokens := filepath.Join(u.dir, "lock"), filepath.Join(u.dir, "tokens")
	script := fmt.Sprintf(`flock -n -o -E 9 %s sh -c 'echo $LEADERSHIP_TOKEN >>%s; sleep 1000'; test $? != 9 || echo two leaders >>%[2]s`, lock, tokens)
	return by.start("run", "--again", "--value="+value, "--", "sh", "-c", script)
}

// ends ends a candidate by a signal.
func (r *running) ends(t trial, by syscall.Signal) {
	require.NoError(t, r.cmd.Process.Signal(by))
	r.wait()
}

// leads waits until both versions see that a candidate leads, and its command has noted its token.
func (u upgraded) leads(value string) {
	u.Helper()
	for _, by := range []trial{u.before, u.trial} {
		by.until(func() bool { return by.exits(0, "leader", "--wait=2m") == value+"\n" }, value+" leads")
		tokens := by.tokens()
		require.NotEmpty(u, tokens, "the leader has gone")
		by.exits(0, "assert", tokens[0])
		storetest.Eventually(u, func() bool { return strings.HasSuffix(u.noted(), "\n"+strings.TrimPrefix(tokens[0], "--token=")+"\n") },
			"the command of %s notes its token", value)
	}
}

// wait waits until both versions see so many ballots.
func (u upgraded) wait(ballots int) {
	u.Helper()
	for _, by := range []trial{u.before, u.trial} {
		by.count(ballots)
	}
}

// noted returns what the commands have noted; the first one makes the file.
func (u upgraded) noted() string {
	tokens, err := os.ReadFile(filepath.Join(u.dir, "tokens"))
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(u, err)
	}
	return "\n" + string(tokens)
}

// check checks what the commands have noted.
func (u upgraded) check() {
	var last uint64
	tokens := strings.Fields(u.noted())
	require.GreaterOrEqual(u, len(tokens), 6)
	for _, token := range tokens {
		n, err := strconv.ParseUint(token, 10, 64)
		require.NoError(u, err, "the commands have noted %q", tokens)
		require.Greater(u, n, last, "the commands have noted %q", tokens)
		last = n
	}
}
