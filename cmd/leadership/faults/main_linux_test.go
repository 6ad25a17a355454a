package faults

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/localdir"
	"github.com/stretchr/testify/require"
)

var every = flag.Bool("every", false, "make all trials, on all stores, and compare with consul lock and etcdctl lock; this takes about ten minutes")

// TestMain runs the tests or, if a test has started this program, is the naive wrapper.
func TestMain(m *testing.M) {
	if os.Getenv(naiveVariable) != "" {
		fmt.Fprintln(os.Stderr, lead(os.Args[1:]))
		os.Exit(1)
	}
	flag.Parse()
	if err := os.Setenv("TMPDIR", localdir.Temp()); err != nil { // for the stores in files
		panic(err)
	}
	parallel := "12" // trials wait more than they work
	if *every {
		parallel = "8" // many make processes without end
	}
	if err := flag.Set("test.parallel", parallel); err != nil {
		panic(err)
	}
	storetest.Main(m, func() { _ = os.RemoveAll(built.dir) })
}

// side is a mode of leadership run and a user.
type side struct{ mode, user string }

var sides = []side{{namespace, root}, {namespace, ordinary}, {subreaper, root}, {subreaper, ordinary}, {unguarded, root}, {unguarded, ordinary}}

// TestFaults makes each fault in each mode, as each user. If the docs say 0, it requires that the old command does
// nothing after the rival's has started. In a mode without a guardian it requires nothing, and the table is the result.
func TestFaults(t *testing.T) {
	p := build(t)
	try(t, cells(t, cell{machine: look(), programs: p, old: p.leadership}), (*testing.T).Parallel, nil)
}

// try makes the trials of cells, and prints the tables. Begin is called first in each, and check may require more of an
// outcome.
func try(t *testing.T, all []cell, begin func(*testing.T), check func(*testing.T, *cell, outcome)) {
	results := &table{}
	t.Run("on", func(t *testing.T) {
		for i, c := range all {
			c.order = i
			if !c.applies() {
				continue
			}
			if why := c.missing(); why != "" {
				results.add(c, outcome{why: "not shown"}, why)
				continue
			}
			t.Run(c.name(), func(t *testing.T) {
				begin(t)
				if c.fault.mutate != nil {
					c.old = c.fault.mutate.build(t, c.programs)
				}
				o := c.try(t)
				if t.Failed() {
					o = outcome{why: "failed"}
				}
				results.add(c, o, "")
				t.Logf("%v", o)
				if c.covered() && !t.Failed() {
					require.Zero(t, o.beats, "the old command beat for %v after its rival had started", o.span)
					require.False(t, o.alive, "the old command is not dead")
				}
				if check != nil && !t.Failed() {
					check(t, &c, o)
				}
			})
		}
	})
	t.Log(results)
}

// cells are those to try: the core, or all.
func cells(t *testing.T, base cell) (all []cell) {
	add := func(s *service, w wrapper, sides []side, variants ...string) {
		all = append(all, base.on(s, w, sides, variants...)...)
	}
	if !*every {
		user := root
		if !base.machine.root {
			user = ordinary
		}
		add(files, run, []side{{namespace, user}}, "daemon") // not forking, which makes the machine busy
		add(files, run, []side{{namespace, ordinary}}, "child")
		add(files, run, []side{{subreaper, ordinary}}, "plain")
		return slices.DeleteFunc(all, func(c cell) bool { return c.fault.unborn && c.variant == "child" }) // it comes before any child
	}
	plain := []side{{"", root}}
	add(files, run, sides, variants...)
	add(files, naive, plain, variants...)
	zookeeper, etcd, consul, etcdAddress, consulAddress := stores(t)
	for _, s := range []*service{zookeeper, etcd, consul} {
		add(s, run, []side{{namespace, root}, {subreaper, ordinary}}, "plain", "daemon")
	}
	add(etcd, run, sides[4:5], "plain", "daemon")
	add(etcd.without(t), run, []side{{namespace, root}, {subreaper, ordinary}}, "plain", "daemon")
	base.programs = base.programs.withLocks(t)
	add(locks("consul lock", consulAddress, time.Minute), consulLock, plain, variants...)
	add(locks("etcdctl lock", etcdAddress, ttl), etcdctlLock, plain, variants...)
	return slices.DeleteFunc(all, func(c cell) bool { return c.fault.unborn && c.variant != "plain" })
}

// on returns a cell for each fault, side and variant.
func (c cell) on(s *service, w wrapper, sides []side, variants ...string) (all []cell) {
	for _, f := range faults {
		for _, side := range sides {
			for _, v := range variants {
				c.service, c.wrapper, c.fault, c.mode, c.user, c.variant = s, w, f, side.mode, side.user, v
				all = append(all, c)
			}
		}
	}
	return all
}
