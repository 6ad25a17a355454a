package faults

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// scene has what a fault needs of the old contender.
type scene struct {
	*cell
	t         *testing.T
	url       string   // of the store, for the old contender
	groups    []string // cgroups, for the old contender
	line      *line    // to the store, if the fault cuts it
	old, next *contender

	supervisor, guardian, init int // process ids; 0: there is none
}

// find finds the processes of the old contender.
func (f *scene) find() error {
	f.supervisor = f.old.Process.Pid
	if !f.wrapper.guarded || f.mode == unguarded {
		return nil
	}
	f.guardian, f.init = f.old.named("leadership-guardian"), f.old.named("leadership-init")
	if f.guardian != 0 && (f.init != 0) == (f.mode == namespace) {
		return nil
	}
	if within(5*time.Second, func() bool { return gone(f.supervisor) }) {
		return errDisturbed // the contender is ending
	}
	return fmt.Errorf("the mode is not %s: the guardian is %d, the init %d", f.mode, f.guardian, f.init)
}

func (f *scene) kill(pids ...int)   { f.t.Helper(); kill(f.t, syscall.SIGKILL, pids...) }
func (f *scene) stop(pids ...int)   { f.t.Helper(); stopAll(f.t, func() []int { return pids }) }
func (f *scene) resume(pids ...int) { f.t.Helper(); kill(f.t, syscall.SIGCONT, pids...) }

// fault is a fault of the old contender.
type fault struct {
	name   string
	needs  string                // what the fault requires: guardian, init, network, or a cgroup: unified, memory, cpu, freezer
	unborn bool                  // the fault comes before the command
	before func(f *scene)        // before the old contender is started
	make   func(f *scene)        // while its command runs and the rival waits
	after  func(f *scene)        // when the rival's command has started
	covers func(cell *cell) bool // whether the docs say 0; nil: in the modes with a guardian
	mutate *mutation             // of the old contender's program, or nil
}

// alone reports whether the command is covered: it has a namespace, or no other process.
func alone(c *cell) bool { return c.mode == namespace || c.mode == subreaper && c.variant == "plain" }

func never(*cell) bool { return false }

var faults = []fault{
	{name: "supervisor killed", make: func(f *scene) { f.kill(f.supervisor) }},
	{name: "supervisor frozen", make: func(f *scene) { f.stop(f.supervisor) }},
	{name: "supervisor frozen, later continued", make: func(f *scene) { f.stop(f.supervisor) },
		after: func(f *scene) { f.resume(f.supervisor) }},
	{name: "supervisor cut off from the store", needs: "network",
		before: func(f *scene) { f.cutLater() }, make: func(f *scene) { f.line.cut() }},
	{name: "supervisor killed for memory", needs: "memory",
		before: func(f *scene) { f.join(f.machine.memory) }, make: (*scene).exhaust},
	{name: "guardian killed", needs: "guardian", make: func(f *scene) { f.kill(f.guardian) }},
	{name: "guardian frozen", needs: "guardian", make: func(f *scene) { f.stop(f.guardian) }},
	{name: "supervisor and guardian killed", needs: "guardian", covers: alone, make: (*scene).killWatch},
	{name: "supervisor and guardian frozen", needs: "guardian", covers: alone,
		make: func(f *scene) { f.stop(f.supervisor, f.guardian) }},
	{name: "all processes stopped, later continued", covers: alone,
		make:  func(f *scene) { stopAll(f.t, f.old.pids) },
		after: func(f *scene) { f.resume(children(f.old.pids())...) }},
	{name: "all processes frozen (cgroup v2), later thawed", needs: "unified", covers: alone,
		make:  func(f *scene) { f.freeze("1") },
		after: func(f *scene) { f.freeze("0") }},
	{name: "all processes frozen (cgroup v1), later thawed", needs: "freezer", covers: never,
		before: func(f *scene) { f.join(f.machine.freezer) },
		make: func(f *scene) {
			f.old.undo = func() { f.freezeOld("THAWED") }
			f.freezeOld("FROZEN")
		},
		after: func(f *scene) { f.freezeOld("THAWED") }},
	{name: "init killed", needs: "init", make: func(f *scene) { f.kill(f.init) }},
	{name: "guardian and init frozen, supervisor killed", needs: "init", // the guardian would continue an init that is stopped alone
		make: func(f *scene) { f.stop(f.guardian, f.init); f.kill(f.supervisor) }},
	{name: "guardian and init frozen (cgroup v2), supervisor killed", needs: "unified", covers: alone,
		make: func(f *scene) { f.freezeGuardian(); f.kill(f.supervisor) }},
	{name: "supervisor, guardian and init frozen", needs: "init",
		make: func(f *scene) { f.stop(f.supervisor, f.guardian, f.init) }},
	{name: "CPU quota of 10 %, supervisor frozen", needs: "cpu",
		covers: alone, // a guardian without a processor is as good as frozen
		before: func(f *scene) { f.join(f.machine.cpu) }, make: func(f *scene) { f.throttle(); f.stop(f.supervisor) }},
	{name: "CPU quota of 10 %, supervisor and guardian killed", needs: "cpu",
		covers: func(c *cell) bool { return c.mode == namespace },
		before: func(f *scene) { f.join(f.machine.cpu) }, make: func(f *scene) { f.throttle(); f.killWatch() }},
	{name: "supervisor frozen until the command has ended: a late renewal", needs: "guardian",
		make: func(f *scene) {
			f.stop(f.supervisor)
			if !within(long, f.old.commandGone) {
				f.t.Fatal("the guardian does not end the command")
			}
			f.resume(f.supervisor)
		}},
	{name: "guardian dies between the clone and the start of the init", needs: "init", unborn: true, mutate: diesEarly},
}

// children puts the supervisor last: it might end the others.
func children(pids []int) []int { return append(slices.Clone(pids[1:]), pids[0]) }

// join makes the old contender run in a cgroup.
func (f *scene) join(parent string) { f.groups = append(f.groups, group(f.t, parent)) }

// exhaust uses up the memory of the supervisor's cgroup, so that the kernel kills the supervisor.
func (f *scene) exhaust() {
	t, dir := f.t, f.groups[0]
	require.NoError(t, os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", f.supervisor), []byte("1000"), 0))
	text, err := os.ReadFile(dir + "/memory.usage_in_bytes")
	require.NoError(t, err)
	used, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	hog := exec.Command(f.programs.beat, "enter", "-cgroups="+dir, "-victim=999", "--", f.programs.beat, "hog")
	hog.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	set(t, dir, "memory.limit_in_bytes", strconv.Itoa(used+8<<20))
	require.NoError(t, hog.Start())
	defer hog.Wait()
	defer func() { _ = hog.Process.Kill() }()
	if !within(long, func() bool { return gone(f.supervisor) }) {
		t.Fatal("the kernel does not kill the supervisor")
	}
}

// killWatch kills the supervisor, and the guardian if there is one.
func (f *scene) killWatch() {
	f.t.Helper()
	f.kill(f.supervisor)
	if f.guardian != 0 {
		f.kill(f.guardian)
	}
}

// throttle gives the old contender's cgroup 10 ms of a processor in each 100 ms.
func (f *scene) throttle() {
	f.t.Helper()
	f.old.undo = func() { set(f.t, f.groups[0], "cpu.cfs_quota_us", "-1") }
	set(f.t, f.groups[0], "cpu.cfs_quota_us", "10000")
}

// freeze sets the state of the old contender's cgroup of version 2.
func (f *scene) freeze(state string) {
	f.t.Helper()
	set(f.t, f.old.cg, "cgroup.freeze", state)
	if state == "1" && !within(long, func() bool { return slices.Contains(lines(f.old.cg+"/cgroup.events"), "frozen 1") }) {
		f.t.Fatal("the cgroup does not freeze")
	}
}

// freezeGuardian freezes the guardian, and the init if there is one, in a cgroup of version 2. Unlike a signal, that
// holds when the supervisor dies: the kernel continues a stopped process that has lost its parent.
func (f *scene) freezeGuardian() {
	f.t.Helper()
	dir := group(f.t, f.machine.unified)
	for _, pid := range []int{f.guardian, f.init} {
		if pid != 0 {
			set(f.t, dir, "cgroup.procs", strconv.Itoa(pid))
		}
	}
	f.t.Cleanup(func() { set(f.t, dir, "cgroup.freeze", "0") })
	set(f.t, dir, "cgroup.freeze", "1")
	if !within(long, func() bool { return slices.Contains(lines(dir+"/cgroup.events"), "frozen 1") }) {
		f.t.Fatal("the guardian does not freeze")
	}
}

// freezeOld sets that of version 1.
func (f *scene) freezeOld(state string) {
	f.t.Helper()
	dir := f.groups[0]
	set(f.t, dir, "freezer.state", state)
	if !within(long, func() bool { return slices.Contains(lines(dir+"/freezer.state"), state) }) {
		f.t.Fatalf("the cgroup is not %s", state)
	}
}

// cutLater puts a line between the old contender and its store.
func (f *scene) cutLater() {
	address, rest := f.url, ""
	if u, err := url.Parse(f.url); err == nil && u.Host != "" {
		address = u.Host
		rest = strings.TrimPrefix(f.url, u.Scheme+"://"+u.Host)
		f.line = newLine(f.t, address)
		f.url = u.Scheme + "://" + f.line.address() + rest
		return
	}
	f.line = newLine(f.t, address)
	f.url = f.line.address()
}

// missing returns why the machine can't show a cell; empty if it can.
func (c *cell) missing() string {
	m := c.machine
	have := map[string]string{"unified": m.unified, "memory": m.memory, "cpu": m.cpu, "freezer": m.freezer}
	if dir, ok := have[c.fault.needs]; ok && dir == "" {
		if c.fault.needs == "unified" {
			return "no cgroup of version 2 can be made"
		}
		return "no cgroup can be made with version 1's controller " + c.fault.needs
	}
	if c.user == root && !m.root {
		return "the test is not run by root"
	}
	return ""
}

// applies reports whether the fault can happen to the cell's wrapper at all.
func (c *cell) applies() bool {
	guarded := c.wrapper.guarded && c.mode != unguarded
	switch c.fault.needs {
	case "guardian":
		return guarded
	case "init":
		return guarded && c.mode == namespace
	case "network":
		return c.service.network
	}
	return guarded || !strings.HasPrefix(c.fault.name, "guardian")
}

// covered reports whether the docs say 0.
func (c *cell) covered() bool {
	if !c.wrapper.guarded || c.mode == unguarded {
		return false
	}
	return c.fault.covers == nil || c.fault.covers(c)
}

func (c *cell) name() string {
	return strings.NewReplacer(" ", "-", ",", "").Replace(filepath.Join(c.service.name, c.column(), c.fault.name, c.variant))
}
