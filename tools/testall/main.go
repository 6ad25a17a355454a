// Command testall runs the tests of all modules of this repository: it first compiles every test binary, and then runs
// them, several that wait at the same time, and few that compute. So no test with a clock runs beside a compiler. Run it
// in the root of the repository; make quick and make test do.
//
// usage: testall [-quick] [FOLDER...]
//
// Only packages in the folders are tested, all by default: testall store/etcd cmd.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// logs holds the output of packages that failed, in the root of the repository.
const logs = ".test"

func main() {
	quick := flag.Bool("quick", false, "only packages whose tests start no server, the short ones, and without the race detector")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout, *quick, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "testall: %v\n", err)
		os.Exit(1)
	}
}

// run builds and runs the tests, and prints how each package ended, and a summary.
func run(ctx context.Context, out io.Writer, quick bool, folders []string) error {
	if err := errors.Join(os.RemoveAll(logs), os.Mkdir(logs, 0o755)); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "testall-") // not in the repository: a test makes a module's zip of that
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	start := time.Now()
	packages, err := list(ctx, quick, folders)
	if err != nil {
		return err
	}
	if err := build(ctx, out, dir, packages); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d test binaries after %v\n", len(packages), time.Since(start).Round(time.Second))

	start = time.Now()
	results := execute(ctx, out, packages)
	summarise(out, results, time.Since(start))
	failed := 0
	for _, r := range results {
		if r.err != nil {
			failed++
		}
	}
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case failed > 0:
		return fmt.Errorf("%d of %d packages failed", failed, len(packages))
	}
	return nil
}
