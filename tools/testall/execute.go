package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// waiting is how many packages are tested at the same time for two processors: most tests wait most of the time.
	// Those of make quick start no server, and wait more.
	waiting, waitingQuick = 3, 4
	// limit ends a package that hangs. It is no goal: a busy machine takes long.
	limit = 20 * time.Minute
	// allTests is the environment variable that package internal/lab/whole reads.
	allTests = "LEADERSHIP_TESTS"
	// shown is how many lines of a failed package's output are printed. The file has the others.
	shown = 120
)

// result is how a package ended.
type result struct {
	*testPackage
	err       error
	wall      time.Duration
	processor time.Duration // of the tests and of the processes that they waited for
}

// execute runs the test binaries. It prints a line for each when it has ended, and the output of those that failed.
func execute(ctx context.Context, out io.Writer, packages []*testPackage) []result {
	var (
		running sync.WaitGroup
		mu      sync.Mutex // guards results and out
		results []result
	)
	most := waiting
	if slices.ContainsFunc(packages, func(p *testPackage) bool { return p.quick }) {
		most = waitingQuick
	}
	waiters := make(chan struct{}, max(1, most*runtime.NumCPU()/2))
	computers := make(chan struct{}, max(1, runtime.NumCPU()/2))
	start := func(p *testPackage, room chan struct{}) {
		running.Go(func() {
			defer func() { <-room }()
			r, log := p.execute(ctx)
			mu.Lock()
			defer mu.Unlock()
			results = append(results, r)
			r.print(out, log)
		})
	}
	// Each kind has a line of its own, so that one that is full does not hold up the other.
	var lines sync.WaitGroup
	for _, kind := range []struct {
		computes bool
		room     chan struct{}
	}{{true, computers}, {false, waiters}} {
		lines.Go(func() {
			for _, p := range packages {
				if p.computes != kind.computes {
					continue
				}
				select {
				case kind.room <- struct{}{}:
					start(p, kind.room)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	lines.Wait()
	running.Wait()
	return results
}

// execute runs one package's tests in the package's folder, as go test does.
func (p *testPackage) execute(ctx context.Context) (result, []byte) {
	args := []string{p.binary, "-test.paniconexit0", "-test.timeout=" + limit.String()}
	if p.computes {
		args = append([]string{"nice"}, args...)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = p.dir
	cmd.Env = append(environment(p.module), "PWD="+p.dir)
	if !p.quick {
		cmd.Env = append(cmd.Env, allTests+"=all")
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	start := time.Now()
	err := cmd.Run()
	r := result{testPackage: p, err: err, wall: time.Since(start)}
	if state := cmd.ProcessState; state != nil {
		r.processor = state.UserTime() + state.SystemTime()
	}
	return r, log.Bytes()
}

// print prints one line, as go test does, and what failed.
func (r result) print(out io.Writer, log []byte) {
	verdict := "ok  "
	if r.err != nil {
		verdict = "FAIL"
	}
	how := ""
	if !r.quick && !r.race() {
		how = ", without the race detector"
	}
	fmt.Fprintf(out, "%s\t%s\t%.1fs (processor %.1fs%s)\n", verdict, r.name, r.wall.Seconds(), r.processor.Seconds(), how)
	if r.err == nil {
		return
	}
	file := filepath.Join(logs, strings.ReplaceAll(r.name, "/", "_")+".log")
	if err := os.WriteFile(file, log, 0o644); err != nil {
		fmt.Fprintln(out, err)
	}
	lines := bytes.SplitAfter(log, []byte("\n"))
	if len(lines) > shown {
		lines = append(lines[:shown:shown], []byte("...\n"))
	}
	fmt.Fprintf(out, "%s\n%v; all of it is in %s\n", bytes.TrimSpace(bytes.Join(lines, nil)), r.err, file)
}

// summarise prints a table: what each module's tests took.
func summarise(out io.Writer, results []result, wall time.Duration) {
	type part struct {
		name               string
		packages           int
		longest, processor time.Duration
	}
	var parts []*part
	var processor time.Duration
	for _, r := range results {
		i := slices.IndexFunc(parts, func(p *part) bool { return p.name == r.part })
		if i < 0 {
			i, parts = len(parts), append(parts, &part{name: r.part})
		}
		parts[i].packages++
		parts[i].longest = max(parts[i].longest, r.wall)
		parts[i].processor += r.processor
		processor += r.processor
	}
	slices.SortFunc(parts, func(a, b *part) int { return cmp.Compare(b.processor, a.processor) })
	fmt.Fprintf(out, "\n%-22s %9s %14s %10s\n", "part", "packages", "longest wall", "processor")
	for _, p := range parts {
		fmt.Fprintf(out, "%-22s %9d %13.0fs %9.0fs\n", p.name, p.packages, p.longest.Seconds(), p.processor.Seconds())
	}
	fmt.Fprintf(out, "%-22s %9d %13.0fs %9.0fs\n", "all", len(results), wall.Seconds(), processor.Seconds())
}
