package faults

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// machine is what this machine offers for faults.
type machine struct {
	root bool
	// The directories of this process's own cgroups, in which trials make theirs; empty if there are none or they can't
	// be written. unified is of version 2, the others are controllers of version 1.
	unified, memory, cpu, freezer string
}

var groups atomic.Int64 // made so far

// look finds out what the machine offers.
func look() machine {
	m := machine{root: os.Geteuid() == 0}
	if !m.root {
		return m
	}
	own := map[string]string{} // by controller; "" is version 2
	for _, line := range lines("/proc/self/cgroup") {
		if parts := strings.SplitN(line, ":", 3); len(parts) == 3 {
			for controller := range strings.SplitSeq(parts[1], ",") {
				own[controller] = parts[2]
			}
		}
	}
	for _, line := range lines("/proc/self/mountinfo") {
		before, after, ok := strings.Cut(line, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(kind) < 3 {
			continue
		}
		at := func(controller string) string { return usable(fields[4], fields[3], own[controller]) }
		switch kind[0] {
		case "cgroup2":
			m.unified = at("")
		case "cgroup":
			for option := range strings.SplitSeq(kind[2], ",") {
				switch option {
				case "memory":
					m.memory = at(option)
				case "cpu":
					m.cpu = at(option)
				case "freezer":
					m.freezer = at(option)
				}
			}
		}
	}
	return m
}

func lines(path string) (all []string) {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		all = append(all, s.Text())
	}
	return all
}

// usable returns the directory of a cgroup below a mount point, or nothing if no group can be made in it.
func usable(mount, root, path string) string {
	inside, err := filepath.Rel(root, path)
	if err != nil {
		return ""
	}
	dir := filepath.Join(mount, inside)
	probe := groupName(dir)
	if err := os.Mkdir(probe, 0o755); err != nil {
		return ""
	}
	if err := os.Remove(probe); err != nil {
		return ""
	}
	return dir
}

func groupName(parent string) string {
	return fmt.Sprintf("%s/leadership-faults-%d-%d", parent, os.Getpid(), groups.Add(1))
}

// group makes a cgroup. The end of the test removes it, after its processes have ended.
func group(t testing.TB, parent string) string {
	t.Helper()
	dir := groupName(parent)
	require.NoError(t, os.Mkdir(dir, 0o755))
	t.Cleanup(func() {
		if !within(long, func() bool { return os.Remove(dir) == nil }) {
			left, _ := os.ReadFile(dir + "/cgroup.procs")
			t.Errorf("the cgroup %s can't be removed; in it are %q", dir, left)
		}
	})
	return dir
}

// set writes a setting of a cgroup.
func set(t testing.TB, dir, name, value string) {
	t.Helper()
	require.NoError(t, os.WriteFile(dir+"/"+name, []byte(value), 0))
}
