package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// batchSize is how many test binaries one go command makes; then progress is shown.
const batchSize = 8

// build compiles the packages' test binaries into the directory, and before them the programs that tests build and start;
// those of make quick start few.
func build(ctx context.Context, out io.Writer, dir string, packages []*testPackage) error {
	var built []string
	for _, p := range packages {
		if p.quick || slices.Contains(built, p.part) {
			continue
		}
		built = append(built, p.part)
		fmt.Fprintf(out, "compiling the packages of %s\n", p.part)
		if _, err := output(goCommand(ctx, p.module, "build", "./...")); err != nil {
			return err
		}
	}
	var (
		compiling errgroup.Group
		mu        sync.Mutex // guards done and out
		done      int
	)
	compiling.SetLimit(2) // while one go command reads packages, the other compiles
	for i, batch := range batches(packages) {
		to := filepath.Join(dir, strconv.Itoa(i)) + string(filepath.Separator)
		if err := os.Mkdir(to, 0o755); err != nil {
			return errors.Join(err, compiling.Wait())
		}
		compiling.Go(func() error {
			if err := compile(ctx, to, batch); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			done += len(batch)
			var names []string
			for _, p := range batch {
				names = append(names, p.name)
			}
			fmt.Fprintf(out, "compiled %d of %d test binaries: %s\n", done, len(packages), strings.Join(names, " "))
			return nil
		})
	}
	return compiling.Wait()
}

// compile compiles the test binaries of a batch into a directory.
func compile(ctx context.Context, dir string, batch []*testPackage) error {
	args := []string{"test", "-c", "-ldflags=-s -w", "-o", dir}
	if batch[0].race() {
		args = append(args, "-race")
	}
	for _, p := range batch {
		args = append(args, p.path)
		p.binary = filepath.Join(dir, path.Base(p.path)+".test")
	}
	_, err := output(goCommand(ctx, batch[0].module, args...))
	return err
}

func (p *testPackage) race() bool { return !p.plain && !p.quick }

// batches returns the packages in groups that one go command builds: of one module, all with the race detector or all
// without it, and each with another name.
func batches(packages []*testPackage) (list [][]*testPackage) {
next:
	for _, p := range packages {
		for i, batch := range list {
			fits := len(batch) < batchSize && batch[0].module == p.module && batch[0].race() == p.race()
			if fits && !slices.ContainsFunc(batch, func(o *testPackage) bool { return path.Base(o.path) == path.Base(p.path) }) {
				list[i] = append(batch, p)
				continue next
			}
		}
		list = append(list, []*testPackage{p})
	}
	return list
}
