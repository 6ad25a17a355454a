package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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
	done := 0
	for i, batch := range batches(packages) {
		to := filepath.Join(dir, strconv.Itoa(i)) + string(filepath.Separator)
		if err := os.Mkdir(to, 0o755); err != nil {
			return err
		}
		args := []string{"test", "-c", "-ldflags=-s -w", "-o", to}
		if batch[0].race() {
			args = append(args, "-race")
		}
		var names []string
		for _, p := range batch {
			names = append(names, p.name)
			args = append(args, p.path)
			p.binary = filepath.Join(to, path.Base(p.path)+".test")
		}
		if _, err := output(goCommand(ctx, batch[0].module, args...)); err != nil {
			return err
		}
		done += len(batch)
		fmt.Fprintf(out, "compiled %d of %d test binaries: %s\n", done, len(packages), strings.Join(names, " "))
	}
	return nil
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
