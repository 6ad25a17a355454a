// Command mutate changes a package in one place at a time and runs tests: a change that no test notices, a survivor,
// stands for a mistake that none would notice. It is run in the root of the repository:
//
//	mutate -state .long/mutants -explained tools/mutate/survivors.txt ./store ./internal/memory .
//
// changes the package in the first argument. For each change it runs that package's tests, and if they pass those of
// the other packages, until some test fails, which it prints. ./conformance=^TestMemory$ is a package of which only the
// tests that match the pattern are run.
//
// Tests that a mutant keeps from ending are ended at a limit: a multiple of what they took without a change. Such a
// mutant is listed as timed-out, and counts as killed. Before it does, the tests are measured again: if they now take
// longer without a change too, since the machine has become busy, the mutant is tried again with the higher limit.
//
// Verdicts are kept in the file of -state, and a mutant that has one is not tried again. The exit status is 1 if there
// is a survivor that the file of -explained does not explain.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

var (
	statePath     = flag.String("state", "", "`file` that keeps the verdicts; none are kept without it")
	explainedPath = flag.String("explained", "", "`file` that explains survivors")
	match         = flag.String("match", "", "try only mutants whose names contain this `text`")
	every         = flag.Int("every", 1, "try only every `n`th mutant")
	times         = flag.Float64("times", 10, "end a package's tests after this multiple of what they took without a change")
	least         = flag.Duration("least", 20*time.Second, "end no package's tests sooner")
	list          = flag.Bool("list", false, "list the mutants and try none")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ok, err := run(ctx, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (ok bool, err error) {
	if len(args) == 0 {
		return false, errors.New("name a package")
	}
	var all []*tests
	for _, arg := range args {
		all = append(all, newTests(arg))
	}
	files, err := sources(ctx, all[0].pkg)
	if err != nil {
		return false, err
	}
	var mutants []mutant
	for _, file := range files {
		more, err := mutantsOf(file)
		if err != nil {
			return false, err
		}
		mutants = append(mutants, more...)
	}
	mutants = selected(mutants, *match, *every)
	if *list {
		for _, m := range mutants {
			fmt.Printf("%s\n\t%s:%d\n", m.name, m.file, m.line)
		}
		return true, nil
	}
	explained, err := readExplained(*explainedPath)
	if err != nil {
		return false, err
	}
	verdicts, err := openVerdicts(*statePath)
	if err != nil {
		return false, err
	}
	defer verdicts.close()
	for _, t := range all {
		if err := t.measure(ctx); err != nil {
			return false, err
		}
		fmt.Println(t)
	}
	count := map[verdict]int{}
	for i, m := range mutants {
		v, known := verdicts.of(m.name)
		failure := ""
		if !known {
			if v, failure, err = try(ctx, m, all); err != nil {
				return false, err
			}
			if err := verdicts.add(m.name, v); err != nil {
				return false, err
			}
		}
		if v == survived && explained[m.name] {
			v = survivedExplained
		}
		count[v]++
		if v == survived || v == timedOut || !known {
			fmt.Printf("%4d/%d %-9s %s (%s:%d) %s\n", i+1, len(mutants), v, m.name, m.file, m.line, failure)
		}
	}
	total := len(mutants) - count[invalid]
	fmt.Printf("%d mutants: %d killed, %d of them timed out, %d survived, %d survived and explained; %d more do not compile\n",
		total, count[killed]+count[timedOut], count[timedOut], count[survived], count[survivedExplained], count[invalid])
	return count[survived] == 0, nil
}

func selected(mutants []mutant, match string, every int) []mutant {
	mutants = slices.DeleteFunc(mutants, func(m mutant) bool { return !strings.Contains(m.name, match) })
	var some []mutant
	for i := 0; i < len(mutants); i += max(1, every) {
		some = append(some, mutants[i])
	}
	return some
}
