package servers_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/suite"
	_ "github.com/go-leadership/leadership/store/all"
)

// With -store the suite runs against that store, and nothing else does.
var storeURL = flag.String("store", "", "`URL` of a store on a running cluster: run the suite against it, and nothing else")

func TestMain(m *testing.M) {
	flag.Parse()
	_, child := suite.Place()
	if *storeURL != "" && !child {
		if err := supervise(*storeURL); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if *storeURL != "" {
		signal.Ignore(os.Interrupt) // a terminal sends it to this process too, and the supervisor ends this one
	}
	if err := flag.Set("test.parallel", "8"); err != nil { // they wait most of the time
		panic(err)
	}
	storetest.Main(m, refuseNothing)
}

// refuseNothing ends a process that was told to run no case.
func refuseNothing() {
	if *storeURL != "" && ran == 0 {
		fmt.Fprintln(os.Stderr, "no case was run: -run 'TestStore/crash' runs those with \"crash\" in their names")
		os.Exit(1)
	}
}

const trialLimit = 20 * time.Second

// supervise runs the suite in a process of its own.
func supervise(rawURL string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	context.AfterFunc(ctx, stop)                   // the next signal ends this process
	args := append(os.Args[1:], "-test.timeout=0") // each case has a watchdog
	if !slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "-test.run") }) {
		args = append(args, "-test.run=^TestStore$")
	}
	child := exec.Command(os.Args[0], args...)
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	err := suite.Supervise(ctx, rawURL, trialLimit, child, os.Stderr)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return fmt.Errorf("the suite failed: %w", err)
	}
	return err
}

// ran counts the cases that TestStore has run.
var ran int

// TestStore is the suite against the store of -store.
func TestStore(t *testing.T) {
	if *storeURL == "" {
		t.Skip("it runs against the store that -store names")
	}
	place, _ := suite.Place()
	h, err := conformance.URL(*storeURL, place)
	if err != nil {
		t.Fatal(err)
	}
	var results []suite.Result
	for _, c := range conformance.Cases() {
		r := suite.Result{Case: c, Outcome: suite.NotRun}
		start := time.Now()
		ok := t.Run(c.Name, func(t *testing.T) {
			ran++
			defer func() {
				if r.Outcome = suite.Passed; t.Failed() {
					r.Outcome = suite.Failed
				}
			}()
			c.Check(t, h)
		})
		if r.Took = time.Since(start); !ok {
			r.Outcome = suite.Failed
		}
		results = append(results, r)
	}
	printTable(results)
}

func printTable(results []suite.Result) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer w.Flush()
	for _, table := range [][][]string{suite.ByCase(results), suite.ByPromise(results)} {
		fmt.Fprintln(w)
		for _, row := range table {
			fmt.Fprintln(w, strings.Join(row, "\t"))
		}
	}
}
