package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// watchdog ends a run that hangs.
const watchdog = 4 * time.Minute

// The whole demo, once on each store. The test is about what happens and in which order. How long it takes is for
// `make demo` to judge: tests of other packages run beside this one, so the bounds are widened here, as by -slack 20s.
func TestDemo(t *testing.T) {
	for kind := range services {
		t.Run(kind, func(t *testing.T) {
			requireTidy(t)
			ctx, cancel := context.WithTimeout(t.Context(), watchdog)
			defer cancel()
			var out bytes.Buffer
			err := run(ctx, config{store: kind, slack: 20 * time.Second, out: &out})
			t.Logf("%s", &out)
			require.NoError(t, err)
		})
	}
}

// One who interrupts it, at any step, finds nothing left behind.
func TestInterrupt(t *testing.T) {
	for _, step := range []string{"starting", "demo     start", "elected", "SIGKILL"} {
		t.Run(step, func(t *testing.T) {
			requireTidy(t)
			watched, cancel := context.WithTimeout(t.Context(), watchdog)
			defer cancel()
			ctx, interrupt := context.WithCancelCause(watched)
			interrupted := errors.New("interrupted")
			out := writerFunc(func(p []byte) {
				if bytes.Contains(p, []byte(step)) {
					interrupt(interrupted)
				}
			})
			err := run(ctx, config{store: "zookeeper", out: out})
			require.ErrorIs(t, context.Cause(ctx), interrupted)
			require.Error(t, err)
		})
	}
}

// A process that ends by itself ends the demo.
func TestProcessEnds(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), watchdog)
	defer cancel()
	ctx, fail := context.WithCancelCause(ctx)
	d := &demo{program: "false", journal: newJournal(io.Discard), fail: fail, processes: map[string]*process{}}
	require.NoError(t, d.start("a", "candidate"))
	defer d.end()
	_, err := d.journal.await(ctx, 1, event.elected)
	require.ErrorContains(t, err, "process a ended by itself: exit status 1")
}

func TestUnknownStore(t *testing.T) {
	err := run(t.Context(), config{store: "paper"})
	require.EqualError(t, err, `there is no demo on store "paper"; there is one on: consul, etcd, zookeeper`)
}

func TestVerdict(t *testing.T) {
	right := []change{{leader: "a", token: 1}, {leader: "b", token: 5}, {leader: "c", token: 7}}
	heard := []string{"a", "b", "c"}
	require.NoError(t, verdict(right, heard))
	for _, c := range []struct {
		name  string
		spoil func(changes []change) []string // returns what the follower heard
		want  string
	}{
		{"too late", func(l []change) []string {
			l[1].what, l[1].took, l[1].bound = "SIGKILL to a", 5*time.Second, 4*time.Second
			return heard
		}, "after SIGKILL to a it took 5s until b was elected, more than 4s"},
		{"token", func(l []change) []string {
			l[2].token = 5
			return heard
		}, "the token of c, 5, is not higher than 5, which was there before"},
		{"order", func(l []change) []string {
			l[1].leader, l[2].leader = "c", "b"
			return []string{"a", "c", "b"}
		}, "a, c, b led in turn, and they stood in line as a, b, c"},
		{"not heard", func([]change) []string { return []string{"a", "c"} },
			"the follower heard of a, c, and a, b, c led"},
		{"nothing heard", func([]change) []string { return nil },
			"the follower heard of no leader, and a, b, c led"},
	} {
		t.Run(c.name, func(t *testing.T) {
			changes := append([]change(nil), right...)
			require.EqualError(t, verdict(changes, c.spoil(changes)), c.want)
		})
	}
}

func TestParseEvent(t *testing.T) {
	e, err := parseEvent(`2026-01-02T15:04:05.000001Z a elected token=12`)
	require.NoError(t, err)
	require.Equal(t, event{time.Date(2026, 1, 2, 15, 4, 5, 1000, time.UTC), "a", "elected token=12"}, e)
	token, ok := e.token()
	require.True(t, ok)
	require.EqualValues(t, 12, token)
	require.False(t, e.leader())
	e, err = parseEvent(`2026-01-02T15:04:05.000001Z f leader name="a b"`)
	require.NoError(t, err)
	require.Equal(t, []string{"a b"}, names([]event{e}))
	for _, line := range []string{"", "panic: oh", "2026-01-02T15:04:05.000001Z a"} {
		_, err := parseEvent(line)
		require.Error(t, err, line)
	}
}

// requireTidy makes the test fail if it leaves anything in the directory for temporary files. That no goroutine is
// left, TestMain sees; each process has one that waits for its end.
func requireTidy(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Cleanup(func() {
		left, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, left)
	})
}

type writerFunc func(p []byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }
