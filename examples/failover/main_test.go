package main

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a process of the example until the test stops it. It returns a function for the output, without the times.
func start(t *testing.T, args ...string) (says func(want string), stop func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, args, in)
		in.Close()
		ended <- err
	}()
	lines := bufio.NewScanner(out)
	says = func(want string) {
		t.Helper()
		said := ""
		for said == "" || said == "f leader none" && said != want { // between two leaders it might be printed
			require.True(t, lines.Scan(), "it ended before it said %q", want)
			var at string
			at, said, _ = strings.Cut(lines.Text(), " ")
			_, err := time.Parse("2006-01-02T15:04:05.000000Z", at)
			require.NoError(t, err)
		}
		require.Regexp(t, "^"+want+"$", said)
	}
	stop = func() {
		t.Helper()
		cancel()
		go func() { _, _ = io.Copy(io.Discard, out) }() // the last lines
		require.NoError(t, <-ended)
	}
	return says, stop
}

func TestFailover(t *testing.T) {
	const url = "memory://failover"
	f, stopFollower := start(t, "follower", "-store", url, "-name", "f")
	f("f leader none")
	a, stopA := start(t, "candidate", "-store", url, "-name", "a")
	a("a standing")
	a(`a elected token=\d+`)
	a("a acknowledged")
	f(`f leader name="a"`)
	b, stopB := start(t, "candidate", "-store", url, "-name", "b")
	b("b standing")
	stopA()
	b(`b elected token=\d+`)
	b("b acknowledged")
	f(`f leader name="b"`)
	stopB()
	stopFollower()
}

func TestWrongArguments(t *testing.T) {
	for want, args := range map[string][]string{
		`the first argument is ""; it has to be candidate or follower`:      nil,
		`the first argument is "voter"; it has to be candidate or follower`: {"voter"},
		`unexpected argument "x"`: {"follower", "x"},
	} {
		require.EqualError(t, run(t.Context(), args, io.Discard), want)
	}
}
