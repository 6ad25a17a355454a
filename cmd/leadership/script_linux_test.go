package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/cmd/leadership/internal/guard"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/whole"
	"github.com/go-leadership/leadership/internal/localdir"
	"github.com/go-leadership/leadership/lifeline"
	"github.com/go-leadership/leadership/store"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// TestMain runs the tests, or is one of the programs that the scripts run.
func TestMain(m *testing.M) {
	guard.Main()
	lifeline.Main()
	testscript.Main(leaks{m}, map[string]func(){"leadership": main, "candidate": candidate, "code": code})
}

// leaks runs tests and fails if a goroutine is left.
type leaks struct{ *testing.M }

func (l leaks) Run() int {
	flag.Parse()
	if err := flag.Set("test.parallel", "12"); err != nil { // most of them wait most of the time
		panic(err)
	}
	if !whole.Tests() { // then the scripts that wait for seconds are left out
		if err := flag.Set("test.short", "true"); err != nil {
			panic(err)
		}
	}
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(s) { // as under nohup, or in the background of a shell; the programs of the tests need them
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	code := l.M.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// Each script uses the program as a user does, on its own directory.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("DIR", storeDir(t))
			examples, err := filepath.Abs("../../examples/command")
			if err != nil {
				return err
			}
			e.Setenv("EXAMPLES", examples)
			e.Setenv("LEADERSHIP_STORE", "file://"+e.Getenv("DIR")+"?ttl=30s")
			e.Setenv("LEADERSHIP_ELECTION", "job")
			e.Setenv("LEADERSHIP_TIMEOUT", storetest.Watchdog.String())
			e.Setenv("GORACE", "atexit_sleep_ms=0") // the race detector lets each process wait for a second at its end
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"standing": standing, "leads": leads, "appears": appears, "answers": answersWith, "exits": exits,
		},
	})
}

// standing is the command "standing N" of scripts: it waits until there are so many ballots.
func standing(ts *testscript.TestScript, _ bool, args []string) {
	await(ts, func(ctx context.Context, st store.Store) (found string, ok bool) {
		ballots, err := st.Ballots(ctx, ts.Getenv("LEADERSHIP_ELECTION"))
		ts.Check(err)
		return fmt.Sprint(ballots), fmt.Sprint(len(ballots)) == args[0]
	})
}

// leads is the command "leads VALUE" of scripts: it waits until the leader has the value.
func leads(ts *testscript.TestScript, _ bool, args []string) {
	await(ts, func(ctx context.Context, st store.Store) (found string, ok bool) {
		known, err := st.Observe(ctx, ts.Getenv("LEADERSHIP_ELECTION"), nil)
		ts.Check(err)
		return known.Leader.Value, known.Leader.Value == args[0]
	})
}

// await asks the script's store until the answer is right.
func await(ts *testscript.TestScript, ask func(context.Context, store.Store) (found string, ok bool)) {
	ctx, cancel := context.WithTimeout(context.Background(), storetest.Watchdog)
	defer cancel()
	st, err := store.Open(ctx, ts.Getenv("LEADERSHIP_STORE"), nil)
	ts.Check(err)
	defer st.Close()
	eventually(ts, func() (string, bool) { return ask(ctx, st) })
}

// eventually waits until a condition holds. Otherwise the script fails, and prints what was found last.
func eventually(ts *testscript.TestScript, condition func() (found string, ok bool)) {
	for began := time.Now(); ; time.Sleep(10*time.Millisecond + time.Since(began)/16) {
		found, ok := condition()
		if ok {
			return
		}
		if time.Since(began) > storetest.Watchdog {
			ts.Fatalf("it did not happen; the last that was found: %s", found)
		}
	}
}

// appears is the command "appears FILE [PATTERN]" of scripts: it waits until the file exists, or has a match. The name of a
// file without a pattern can have wildcards.
func appears(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) == 1 {
		eventually(ts, func() (string, bool) {
			files, err := filepath.Glob(ts.MkAbs(args[0]))
			ts.Check(err)
			return "no file", len(files) > 0
		})
		return
	}
	pattern := regexp.MustCompile("(?m)" + args[1])
	eventually(ts, func() (string, bool) {
		text, _ := os.ReadFile(ts.MkAbs(args[0])) // an error: the file does not exist yet
		return string(text), pattern.Match(text)
	})
}

// answersWith is the command "answers LOG PATH CODE [PATTERN]" of scripts: it waits until the runner with this log answers
// the path with the code, and a body that has a match.
func answersWith(ts *testscript.TestScript, _ bool, args []string) {
	defer http.DefaultClient.CloseIdleConnections()
	eventually(ts, func() (string, bool) {
		log, _ := os.ReadFile(ts.MkAbs(args[0])) // an error: the file does not exist yet
		address := regexp.MustCompile(`msg=listening address=(\S+)`).FindSubmatch(log)
		if address == nil {
			return "it is not listening", false
		}
		answer, err := http.Get("http://" + string(address[1]) + args[1])
		if err != nil {
			return err.Error(), false
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		right := fmt.Sprint(answer.StatusCode) == args[2] && (len(args) < 4 || regexp.MustCompile(args[3]).Match(body))
		return fmt.Sprint(answer.StatusCode, " ", string(body), err), right
	})
}

// storeDir returns a directory for a store, which is removed at the end.
func storeDir(t *testing.T) string {
	dir, err := os.MkdirTemp(localdir.Temp(), "leadership-script-")
	require.NoError(t, err)
	t.Cleanup(func() { // processes that a failed test has left end at that moment
		storetest.Eventually(t, func() bool { return os.RemoveAll(dir) == nil }, "%s is removed", dir)
	})
	return dir + "/store"
}

// exits is the command "exits CODE PROGRAM..." of scripts: it runs a program, as exec does, which has to end with the exit
// code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	err, code := ts.Exec(args[1], args[2:]...), 0
	if failed := new(exec.ExitError); errors.As(err, &failed) {
		code = failed.ExitCode()
	} else {
		ts.Check(err)
	}
	if fmt.Sprint(code) != args[0] {
		ts.Fatalf("the exit code is %d", code)
	}
}

// code runs a command in the background and prints its exit code, which scripts can't see otherwise. With "-pid FILE" before the command, it
// writes the command's process id to the file.
func code() {
	args, file := os.Args[1:], ""
	if args[0] == "-pid" {
		file, args = args[1], args[2:]
	}
	runtime.LockOSThread() // or the thread might end, and the command with it
	cmd := exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // a script that fails leaves nothing behind
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	if file != "" {
		if err := os.WriteFile(file, []byte(strconv.Itoa(cmd.Process.Pid)), 0o666); err != nil {
			panic(err)
		}
	}
	_ = cmd.Wait()
	fmt.Println("code", cmd.ProcessState.ExitCode())
}

// candidate stands with the value of its first argument until SIGINT. With the second argument "silent" it does not
// acknowledge; with "stubborn" its work does not stop when it is asked to resign.
func candidate() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	manner := strings.Join(os.Args[2:], " ")
	if err := stand(ctx, os.Args[1], manner); ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func stand(ctx context.Context, value, manner string) error {
	st, err := store.Open(ctx, os.Getenv("LEADERSHIP_STORE"), nil)
	if err != nil {
		return err
	}
	defer st.Close()
	c, err := leadership.NewCandidate(st, os.Getenv("LEADERSHIP_ELECTION"), value, nil)
	if err != nil {
		return err
	}
	return c.Run(ctx, func(leading context.Context, term *leadership.Term) error {
		if manner != "silent" {
			if err := term.Acknowledge(leading); err != nil {
				return err
			}
		}
		if manner == "stubborn" {
			leading = ctx
		}
		<-leading.Done()
		return context.Cause(leading)
	})
}
