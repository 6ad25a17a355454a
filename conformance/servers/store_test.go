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
	"github.com/go-leadership/leadership/store"
	_ "github.com/go-leadership/leadership/store/all"
	"go.uber.org/goleak"
)

// With -store the suite runs against that store, and nothing else does.
var storeURL = flag.String("store", "", "`URL` of a store on a running cluster: run the suite against it, and nothing else")

// placeVariable tells the process that runs the suite where in the cluster to run it.
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
	if *storeURL != "" {
		signal.Ignore(os.Interrupt) // a terminal sends it to this process too, which the other one ends
	}
	goleak.VerifyTestMain(suite{m})
}

// trialLimit bounds the trial before the suite; clearLimit the removal of what it wrote.
const (
	trialLimit = 20 * time.Second
	clearLimit = time.Minute
)

var errInterrupted = errors.New("interrupted")

// supervise runs the suite in a process of its own, and clears up after it however that ends.
func supervise(rawURL string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	context.AfterFunc(ctx, stop) // the next signal ends this process
	place := "leadership-conformance-" + time.Now().UTC().Format("20060102t150405.000000")
	h, err := conformance.URL(rawURL, place)
	if err != nil {
		return err
	}
	wrote, err := try(ctx, h)
	if wrote {
		defer func() {
			if ctx.Err() != nil {
				fmt.Fprintln(os.Stderr, "interrupted: removing what the suite wrote, for a minute at most; again to leave it")
			}
			clearing, cancel := context.WithTimeout(context.Background(), clearLimit)
			defer cancel()
			if left := h.Clear(clearing, ""); left != nil {
				err = errors.Join(err, fmt.Errorf("%w\nwhat the suite wrote is left; remove it with\n\t%s", left, removal(rawURL, place)))
			}
		}()
	}
	if err != nil {
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
	err = child.Run()
	switch {
	case ctx.Err() != nil:
		return errInterrupted
	case err != nil:
		return fmt.Errorf("the suite failed: %w", err)
	}
	return nil
}

// try finds out whether the store can be reached and permits what the suite does, and whether something was written.
func try(ctx context.Context, h conformance.Harness) (wrote bool, err error) {
	trial, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	wrote, err = conformance.Permissions(trial, h)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		err = errInterrupted
	case trial.Err() != nil:
		err = fmt.Errorf("the store did not answer within %v: %w", trialLimit, err)
	}
	return wrote, err
}

// removal is the command that removes what is below a place in the store that a URL names.
func removal(rawURL, place string) string {
	u, err := store.ParseURL(rawURL)
	if err != nil {
		return err.Error()
	}
	at := strings.TrimPrefix(u.Path+"/"+place, "/")
	switch strings.TrimSuffix(u.Scheme, "+tls") {
	case "zookeeper":
		return "zkCli.sh -server " + strings.Join(u.Hosts, ",") + " deleteall '/" + at + "'"
	case "etcd":
		return "etcdctl --endpoints " + strings.Join(u.Hosts, ",") + " del --prefix '" + at + "/'"
	case "consul":
		return "consul kv delete -recurse '" + at + "/'"
	}
	return "the store's own tools, below " + at
}

// suite is the process that runs the cases.
type suite struct{ *testing.M }

// Run implements goleak.TestingM. It fails where it was told to run no case.
func (s suite) Run() int {
	code := s.M.Run()
	if *storeURL != "" && code == 0 && ran == 0 {
		fmt.Fprintln(os.Stderr, "no case was run: -run 'TestStore/crash' runs those with \"crash\" in their names")
		return 1
	}
	return code
}

// ran counts the cases that TestStore has run.
var ran int

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
			ran++
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
