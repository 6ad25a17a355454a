package conformance_test

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
	_ "github.com/go-leadership/leadership/store/all"
	"go.uber.org/goleak"
)

// With -store the suite runs against that store, and nothing else does.
var storeURL = flag.String("store", "", "`URL` of a store on a running cluster: run the suite against it, and nothing else")

// placeVariable tells the process that runs the suite where in the cluster it is to do so.
const placeVariable = "LEADERSHIP_CONFORMANCE_PLACE"

func TestMain(m *testing.M) {
	flag.Parse()
	if *storeURL != "" && os.Getenv(placeVariable) == "" {
		if err := supervise(*storeURL); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// supervise runs the suite in a process of its own, and clears up after it however that ends.
func supervise(rawURL string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	place := "leadership-conformance-" + time.Now().UTC().Format("20060102t150405.000000")
	h, err := conformance.URL(rawURL, place)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if left := h.Clear(ctx, ""); left != nil {
			err = errors.Join(err, fmt.Errorf("what the suite wrote is left below %q: %w", place, left))
		}
	}()
	trial, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := conformance.Permissions(trial, h); err != nil {
		return err
	}
	args := append(os.Args[1:], "-test.timeout=0") // each case has a watchdog
	if !slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "-test.run") }) {
		args = append(args, "-test.run=^TestStore$")
	}
	child := exec.CommandContext(ctx, os.Args[0], args...)
	child.Env = append(os.Environ(), placeVariable+"="+place)
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	child.Cancel = func() error { return child.Process.Signal(syscall.SIGTERM) }
	child.WaitDelay = 10 * time.Second
	if err := child.Run(); err != nil {
		return fmt.Errorf("the suite failed: %w", err)
	}
	return nil
}

// TestStore is the suite against the store of -store.
func TestStore(t *testing.T) {
	if *storeURL == "" {
		t.Skip("it runs against the store that -store names")
	}
	h, err := conformance.URL(*storeURL, os.Getenv(placeVariable))
	if err != nil {
		t.Fatal(err)
	}
	var results []result
	for _, c := range conformance.Cases() {
		r := result{Case: c, outcome: "not run"}
		start := time.Now()
		ok := t.Run(c.Name, func(t *testing.T) {
			defer func() {
				if r.outcome = "passed"; t.Failed() {
					r.outcome = "FAILED"
				}
			}()
			c.Check(t, h)
		})
		if r.took = time.Since(start); !ok {
			r.outcome = "FAILED"
		}
		results = append(results, r)
	}
	printTable(results)
}

// result is how a case ended.
type result struct {
	conformance.Case
	outcome string
	took    time.Duration
}

// promises are what the cases check, in the words of package leadership.
var promises = []struct{ name, title string }{
	{"G1", "one leader"}, {"G2", "fencing"}, {"G3", "liveness"}, {"G4", "order"}, {"G5", "acknowledgement"},
	{"G6", "no herd"}, {"G7", "nothing outlives its owner"}, {"", "the contract of package store alone"},
}

func printTable(results []result) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintln(w, "\ncase\tpromises\tresult\ttime")
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%s\t%s\t%.1fs\n", r.Name, strings.Join(r.Promises, " "), r.outcome, r.took.Seconds())
	}
	fmt.Fprintln(w, "\npromise\t\tpassed\tfailed\tnot run")
	for _, p := range promises {
		count := map[string]int{}
		for _, r := range results {
			if slices.Contains(r.Promises, p.name) || p.name == "" && len(r.Promises) == 0 {
				count[r.outcome]++
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\n", p.name, p.title, count["passed"], count["FAILED"], count["not run"])
	}
}
