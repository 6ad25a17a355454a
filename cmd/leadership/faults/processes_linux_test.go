package faults

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process is a process of a wrapper.
type process struct {
	pid  int
	name string // the program's, as it was executed
}

// tree returns a process and its descendants, parents first.
func tree(pid int) []process {
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return nil
	}
	name, _, _ := strings.Cut(string(cmdline), "\x00")
	all := []process{{pid, name}}
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid)) // none: it has ended
	for _, task := range tasks {
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		for child := range strings.FieldsSeq(string(children)) {
			if n, err := strconv.Atoi(child); err == nil {
				all = append(all, tree(n)...)
			}
		}
	}
	return all
}

// state returns the state of a process, as in /proc/PID/stat; 0: it has gone.
func state(pid int) byte {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	if after == "" {
		return 0
	}
	return after[0]
}

func gone(pid int) bool { return slices.Contains([]byte{0, 'Z', 'X'}, state(pid)) }

func kill(t testing.TB, signal syscall.Signal, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, signal); err != nil && err != syscall.ESRCH {
			t.Fatalf("%v to %d: %v", signal, pid, err)
		}
	}
}

// stopAll stops processes, parents first, until none runs: they might start others meanwhile.
func stopAll(t testing.TB, pids func() []int) {
	t.Helper()
	stopped := within(long, func() bool {
		all := true
		for _, pid := range pids() {
			if state(pid) != 'T' && !gone(pid) {
				all = false
				kill(t, syscall.SIGSTOP, pid)
			}
		}
		return all
	})
	if !stopped {
		t.Fatal("the processes do not stop")
	}
}

// long is how long a trial waits for something that has to happen, on a busy machine.
const long = 45 * time.Second

// within waits until a condition holds, and reports whether it does.
func within(d time.Duration, holds func() bool) bool {
	for end := time.Now().Add(d); ; time.Sleep(10 * time.Millisecond) {
		if holds() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}
