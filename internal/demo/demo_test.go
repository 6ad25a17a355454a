package demo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	_ "github.com/go-leadership/leadership/store/file"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
)

// The tests check what happens, and in which order. The times are judged by `make demo`: here the bounds are wider, and
// the sessions longer, since tests of other packages run at the same time.
const (
	slack    = 20 * time.Second
	ttl      = 10 * time.Second // of tests with a freeze, which takes as long
	longTTL  = time.Minute      // of tests in which no session ends
	watchdog = 2 * time.Minute  // after which a run is ended
)

// watched is a context for a run. Tests run in parallel, since they wait more than they work.
func watched(t *testing.T) context.Context {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), watchdog)
	t.Cleanup(cancel)
	return ctx
}

// The whole demo, as lines.
func TestDemo(t *testing.T) {
	ctx := watched(t)
	var out bytes.Buffer
	err := Run(ctx, Config{TTL: ttl, Slack: slack, Out: &out})
	t.Logf("%s", &out)
	require.NoError(t, err)
	said := regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d\.\d{3}  (\w+) +(.*)$`).FindAllStringSubmatch(out.String(), -1)
	var story []string
	for _, m := range said {
		if line := m[1] + " " + m[2]; m[1] == "demo" || strings.Contains(line, " leads, ") {
			story = append(story, regexp.MustCompile(`(file:///|\d).*`).ReplaceAllString(line, "#"))
		}
	}
	require.Equal(t, []string{
		"demo three candidates and a follower on #",
		"a leads, token #",
		"demo queue: a, b, c",
		"demo kills a (SIGKILL)",
		"b leads, token #",
		"demo kill a: b led after #",
		"demo queue: b, c, a",
		"demo freezes b (SIGSTOP)",
		"c leads, token #",
		"demo freeze b: c led after #",
		"demo queue: c, a",
		"demo wakes b (SIGCONT)",
		"demo queue: c, a, b",
		"demo ends c (SIGTERM), so that it resigns",
		"a leads, token #",
		"demo end c: a led after #",
		"demo queue: a, b",
	}, story)
	require.Len(t, regexp.MustCompile(`(?m)^(start|kill a|freeze b|end c) +[abc] +\d+ `).FindAllString(out.String(), -1), 4)
	require.Regexp(t, `\nas promised: .*\n$`, out.String())
}

// The whole demo, on a screen.
func TestDemoOnScreen(t *testing.T) {
	ctx := watched(t)
	y := newTTY(t, 80, 24)
	require.NoError(t, Run(ctx, Config{TTL: ttl, Slack: slack, Out: y, Screen: &Screen{Size: y.size, Color: true}}))
	t.Logf("%s", y.shown())
	require.Regexp(t, `^leadership demo, .* on file:///`, y.shown())
	require.Regexp(t, `(?m)^leader    a since `, y.shown())
	require.Contains(t, y.shown(), "queue     a, b\nfollower  knows a\n")
	require.Regexp(t, `(?m)^c         process \d+ has resigned and ended$`, y.shown())
	require.Regexp(t, `\nas promised: .*$`, y.shown())
}

// An interrupt at any step leaves nothing behind. The frozen process is killed, too.
func TestInterrupt(t *testing.T) {
	for _, step := range []string{"three candidates", "a         leads", "SIGKILL", "SIGSTOP"} {
		t.Run(step, func(t *testing.T) {
			ctx, interrupt := context.WithCancelCause(watched(t))
			interrupted := errors.New("interrupted")
			out := writerFunc(func(p []byte) error {
				if bytes.Contains(p, []byte(step)) {
					interrupt(interrupted)
				}
				return nil
			})
			require.ErrorIs(t, Run(ctx, Config{TTL: longTTL, Out: out}), interrupted)
		})
	}
}

// The demo ends if its output can't be written, and if it panics.
func TestWriterFails(t *testing.T) {
	ctx := watched(t)
	for _, screen := range []*Screen{nil, {Size: func() (int, int) { return 80, 24 }}} {
		fail := func([]byte) error { return io.ErrClosedPipe }
		require.ErrorIs(t, Run(ctx, Config{TTL: longTTL, Out: writerFunc(fail), Screen: screen}), io.ErrClosedPipe)
	}
	require.PanicsWithValue(t, "oh", func() {
		_ = Run(ctx, Config{TTL: longTTL, Out: writerFunc(func(p []byte) error {
			if bytes.Contains(p, []byte("SIGSTOP")) {
				panic("oh")
			}
			return nil
		})})
	})
}

// A process that ends by itself ends the demo.
func TestProcessEnds(t *testing.T) {
	ctx := watched(t)
	program := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\nexit 3\n"), 0o700))
	s := stage()
	s.program, s.store = program, openMemory(t)
	require.ErrorContains(t, s.show(ctx), " ended by itself: exit status 3") // of the follower or of a
}

// openMemory opens a store that no other process sees.
func openMemory(t *testing.T) store.Store {
	st, err := memory.Open(memory.NewService(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

func TestPatience(t *testing.T) {
	s := stage()
	s.store = openMemory(t)
	require.NoError(t, s.open())
	defer s.close()
	s.until(watched(t), time.Millisecond, "a miracle", func() bool { return false })
	require.EqualError(t, s.err, "waited 1ms in vain for a miracle")
}

// The demo waits until no other candidate stands. The ballots of an interrupted run are about to go.
func TestElectionInUse(t *testing.T) {
	s := stage()
	s.store = openMemory(t)
	ballot, err := s.store.Cast(t.Context(), election, "x")
	require.NoError(t, err)
	require.NoError(t, s.open())
	defer s.close()
	waited := false
	s.view = viewFunc(func() {
		if !waited && slices.Equal(s.queue, []string{"x"}) {
			waited = true
			require.NoError(t, ballot.Withdraw(t.Context()))
		}
	})
	s.program = "/no such program"
	s.begin(watched(t))
	require.ErrorIs(t, s.err, fs.ErrNotExist)
	require.True(t, waited)
}

func TestWrongURL(t *testing.T) {
	ctx := watched(t)
	require.ErrorContains(t, Run(ctx, Config{URL: "etcd://localhost/"}), "no imported package registered it")
}

func TestBounds(t *testing.T) {
	const ttl = 4 * time.Second
	for scheme, want := range map[string]bounds{
		"file":           {kill: time.Second, freeze: 5 * time.Second, resign: time.Second},
		"etcd+tls":       {kill: 5 * time.Second, freeze: 5 * time.Second, resign: time.Second},
		"zookeeper":      {kill: 8 * time.Second, freeze: 8 * time.Second, resign: time.Second},
		"consul":         {kill: 5500 * time.Millisecond, freeze: 5500 * time.Millisecond, resign: time.Second},
		"somebody-elses": {resign: time.Second},
	} {
		require.Equal(t, want, boundsOf(scheme, ttl, Config{}), scheme)
	}
	require.Equal(t, 21*time.Second, boundsOf("consul", 10*time.Second, Config{}).kill)
	require.Equal(t, bounds{3 * time.Second, 3 * time.Second, 2 * time.Second},
		boundsOf("zookeeper", ttl, Config{Crash: 2 * time.Second, Slack: time.Second}))
	require.Equal(t, bounds{resign: 2 * time.Second}, boundsOf("other", ttl, Config{Slack: time.Second}))
}

type writerFunc func(p []byte) error

func (f writerFunc) Write(p []byte) (int, error) { return len(p), f(p) }

// viewFunc is called whenever something might have changed.
type viewFunc func()

func (f viewFunc) event(event) error    { return nil }
func (f viewFunc) refresh(*scene) error { f(); return nil }
func (f viewFunc) end(*scene) error     { return nil }
