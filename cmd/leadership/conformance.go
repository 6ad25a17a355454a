package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/suite"
	"github.com/go-leadership/leadership/internal/visible"
)

type conformanceCmd struct {
	storeFlags
	outputFlags
	Pattern string `name:"run" placeholder:"PATTERN" help:"Run the cases whose names match this regular expression."`
	JUnit   string `name:"junit" placeholder:"FILE" help:"Write the results to a file, in JUnit's XML."`
	List    bool   `help:"List the cases, and the promise that each checks, and run none."`
}

// Help is the text below the flags' in --help.
func (conformanceCmd) Help() string {
	return `It checks the promises of docs/guarantees.md on a store that others may use: all that it writes is in a place of
its own below the path of the URL, and is removed at the end. It takes some minutes, with a TTL of 3 s; the shorter the
TTL of the URL, the faster. It cuts and delays its own connections, and leaves the service alone.

Exit codes: 0: all cases passed; 1: a case failed; 64: wrong usage; 69: the store did not answer; 77: a permission is
missing, which the error names; 130 and 143: ended by Ctrl-C or SIGTERM, after it has cleared up.`
}

// Run implements the subcommand.
func (c *conformanceCmd) Run(a *app) error {
	pattern, err := regexp.Compile(c.Pattern)
	if err != nil {
		return &failure{code: exitUsage, err: fmt.Errorf("--run=%s: %w", c.Pattern, err)}
	}
	if !anyMatches(pattern) {
		return &failure{exitUsage, fmt.Errorf("no case matches --run=%s", c.Pattern), "leadership conformance --list lists the cases"}
	}
	if c.List {
		return c.list(a, pattern)
	}
	if err := c.check(); err != nil {
		return err
	}
	if place, ok := suite.Place(); ok {
		return c.cases(a, place, pattern)
	}
	return c.supervise(a)
}

func anyMatches(pattern *regexp.Regexp) bool {
	for _, each := range conformance.Cases() {
		if pattern.MatchString(each.Name) {
			return true
		}
	}
	return false
}

// list lists the cases.
func (c *conformanceCmd) list(a *app, pattern *regexp.Regexp) error {
	type caseJSON struct {
		Name     string   `json:"name"`
		Promises []string `json:"promises"`
		Explains string   `json:"explains"`
	}
	cases := []caseJSON{}
	rows := [][]cell{texts("CASE", "PROMISES", "RULE")}
	for _, each := range conformance.Cases() {
		if pattern.MatchString(each.Name) {
			cases = append(cases, caseJSON{each.Name, append([]string{}, each.Promises...), each.Explains})
			rows = append(rows, texts(each.Name, strings.Join(each.Promises, " "), each.Explains))
		}
	}
	if c.JSON {
		return printJSON(a.out, cases)
	}
	return a.outStyle.table(a.out, rows)
}

// supervise runs the cases in another process of this program.
func (c *conformanceCmd) supervise(a *app) error {
	if err := checkWritable(c.JUnit); err != nil {
		return &failure{code: exitUsage, err: fmt.Errorf("--junit: %w", err)}
	}
	ctx, stop := interruptible(syscall.SIGQUIT)
	defer stop()
	program, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.Command(program, os.Args[1:]...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, a.out, a.errs
	err = suite.Supervise(ctx, c.Store, c.Timeout, child, a.errs)
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		if err != suite.ErrInterrupted { // keys of the suite could not be removed
			a.warnf("%v", err)
		}
		return context.Cause(ctx)
	case errors.As(err, &exit):
		if err != error(exit) {
			a.warnf("%v", err)
		}
		if exit.Exited() { // it has printed why
			return &failure{code: exit.ExitCode(), err: errors.New("")}
		}
		return fmt.Errorf("the process that ran the suite on %s has ended: %w", c.address(), exit)
	}
	return err
}

// checkWritable finds out before the suite runs, which takes minutes, whether the file of --junit can be written.
func checkWritable(path string) error {
	if path == "" {
		return nil
	}
	_, absent := os.Lstat(path)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	f.Close()
	if absent != nil {
		return os.Remove(path)
	}
	return nil
}

// cases is the process that runs the cases.
func (c *conformanceCmd) cases(a *app, place string, pattern *regexp.Regexp) error {
	signal.Ignore(os.Interrupt, syscall.SIGQUIT) // a terminal sends them to this process too, which the other one ends
	h, err := conformance.URL(c.Store, place)
	if err != nil {
		return err
	}
	var results []suite.Result
	all := conformance.Cases()
	for i, each := range all {
		r := suite.Result{Case: each, Outcome: suite.NotRun}
		if pattern.MatchString(each.Name) {
			end := a.progress(fmt.Sprintf("case %d of %d, %s", i+1, len(all), each.Name))
			r = check(each, h)
			end()
			if r.Outcome == suite.Failed {
				fmt.Fprintf(a.errs, "%s  %s\n%s", a.errsStyle.paint(red, "FAILED"), each.Name, indent(visible.Text(r.Log)))
			}
		}
		results = append(results, r)
	}
	if c.JUnit != "" {
		err = writeJUnit(c.JUnit, c.address(), results)
	}
	if printed := c.print(a, results); err == nil {
		err = printed
	}
	if err == nil && suite.Count(results, suite.Failed) > 0 {
		err = &failure{code: exitNo, err: fmt.Errorf("%d of %d cases failed on %s", suite.Count(results, suite.Failed), len(results)-suite.Count(results, suite.NotRun), c.address())}
	}
	return err
}

// check runs a case.
func check(each conformance.Case, h conformance.Harness) suite.Result {
	r := &report{}
	began := time.Now()
	each.Check(r, h)
	result := suite.Result{Case: each, Outcome: suite.Passed, Took: time.Since(began), Log: r.log.String()}
	if r.Failed() {
		result.Outcome = suite.Failed
	}
	return result
}

// report collects what a case logs. It implements conformance.TB.
type report struct {
	mu     sync.Mutex
	log    strings.Builder // guarded by mu, as is failed
	failed bool
}

func (r *report) Helper() {}

func (r *report) Logf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(&r.log, format+"\n", args...)
}

func (r *report) Errorf(format string, args ...any) {
	r.Logf(format, args...)
	r.Fail()
}

func (r *report) Fail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}

func (r *report) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// indent returns a text with its lines indented.
func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("    " + line)
	}
	return b.String()
}

// print prints the tables.
func (c *conformanceCmd) print(a *app, results []suite.Result) error {
	if c.JSON {
		type resultJSON struct {
			Name     string        `json:"name"`
			Promises []string      `json:"promises"`
			Result   suite.Outcome `json:"result"`
			Seconds  float64       `json:"seconds"`
			Log      string        `json:"log,omitempty"`
		}
		list := []resultJSON{}
		for _, r := range results {
			list = append(list, resultJSON{r.Name, append([]string{}, r.Promises...), r.Outcome, r.Took.Seconds(), r.Log})
		}
		return printJSON(a.out, struct {
			Store string       `json:"store"`
			Cases []resultJSON `json:"cases"`
		}{c.address(), list})
	}
	colors := map[string]string{string(suite.Passed): green, string(suite.Failed): red, string(suite.NotRun): faint}
	ran := slices.DeleteFunc(slices.Clone(results), func(r suite.Result) bool { return r.Outcome == suite.NotRun })
	for i, table := range [][][]string{suite.ByCase(ran), suite.ByPromise(results)} {
		if i > 0 {
			fmt.Fprintln(a.out)
		}
		var rows [][]cell
		for _, row := range table {
			cells := texts(row...)
			for i := range cells {
				cells[i].color = colors[cells[i].text]
			}
			rows = append(rows, cells)
		}
		for i, head := range rows[0] {
			rows[0][i].text = strings.ToUpper(head.text)
		}
		if err := a.outStyle.table(a.out, rows); err != nil {
			return err
		}
	}
	return nil
}
