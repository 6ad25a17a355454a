package guard

import (
	"cmp"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/internal/lab/whole"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// fault is a fault of a trial.
type fault struct {
	name   string
	inject func(t *testing.T, tr *trial)
	// waits is the cause that the supervisor's Wait returns with, if the supervisor lives.
	waits Cause
	// terms says that TERM is sent at once.
	terms bool
	// supervised says that the supervisor ends the command before the kernel would.
	supervised bool
	// uncovered says that a descendant of the command outlives the lease in the mode Subreaper.
	uncovered bool
	// pid1 says that the fault is also tried with a supervisor that is PID 1.
	pid1 bool
	// forks is the interval at which a process forks without end. Zero: there is none.
	forks time.Duration
	// remedy, if there is one, lets Wait return after the lease.
	remedy func(tr *trial)
}

func send(s unix.Signal, pids ...int) {
	for _, pid := range pids {
		_ = unix.Kill(pid, s)
	}
}

func (tr *trial) supervisor() int { return tr.cmd.Process.Pid }

// child is the guardian's child: the init, or the command.
func (tr *trial) child() int { return family(tr.guardian)[1] }

var faults = []fault{
	{
		name: "renewals end", waits: Deadline, supervised: true, forks: 30 * time.Millisecond,
		inject: func(*testing.T, *trial) {},
	}, {
		name: "a late renewal", waits: Deadline, supervised: true, // it comes after TERM
		inject: func(t *testing.T, tr *trial) {
			tr.polite.await(t, "what TERM ends")
			require.GreaterOrEqual(t, tr.polite.at, tr.deadline.add(-trialMargin-trialStop-time.Second), "TERM was sent early")
			tr.write(t)
		},
	}, {
		name: "supervisor killed", terms: true, supervised: true,
		inject: func(_ *testing.T, tr *trial) { send(unix.SIGKILL, tr.supervisor()) },
	}, {
		name: "supervisor stopped", pid1: true, supervised: true,
		inject: func(_ *testing.T, tr *trial) { send(unix.SIGSTOP, tr.supervisor()) },
	}, {
		name: "guardian killed", waits: GuardianDied, pid1: true, supervised: true, forks: time.Millisecond,
		inject: func(_ *testing.T, tr *trial) { send(unix.SIGKILL, tr.guardian) },
	}, {
		name: "guardian stopped", waits: Deadline, supervised: true,
		inject: func(_ *testing.T, tr *trial) { send(unix.SIGSTOP, tr.guardian) },
	}, {
		name: "init killed", waits: GuardianDied, supervised: true, forks: time.Millisecond, // without one, the command
		inject: func(_ *testing.T, tr *trial) { send(unix.SIGKILL, tr.child()) },
	}, {
		name: "init stopped", waits: Deadline, supervised: true,
		inject: func(_ *testing.T, tr *trial) { send(unix.SIGSTOP, tr.child()) },
	}, {
		name: "supervisor and guardian killed", uncovered: true,
		inject: func(_ *testing.T, tr *trial) { send(unix.SIGKILL, tr.supervisor(), tr.guardian) },
	}, {
		name: "supervisor and guardian stopped", uncovered: true,
		inject: func(_ *testing.T, tr *trial) { send(unix.SIGSTOP, tr.supervisor(), tr.guardian) },
		remedy: func(tr *trial) { send(unix.SIGCONT, tr.supervisor()) },
	}, {
		name: "all stopped", uncovered: true,
		inject: func(_ *testing.T, tr *trial) { send(unix.SIGSTOP, family(tr.supervisor())...) },
		remedy: func(tr *trial) { send(unix.SIGCONT, tr.tree...) },
	},
}

// TestFaults checks that with each fault the command and its descendants are dead before the lease ends, unless
// Mode.Uncovered excepts the fault. If the supervisor lives, Wait returns, and not before they are dead.
func TestFaults(t *testing.T) {
	t.Parallel()
	require.NoError(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) // see killAll
	tried := map[Kind]bool{}
	var running sync.WaitGroup
	for _, v := range available(t) {
		if !whole.Tests() && (v.pid1 || tried[v.mode.Kind]) {
			continue // each mode once
		}
		tried[v.mode.Kind] = true
		for _, f := range faults {
			if v.pid1 && !f.pid1 {
				continue
			}
			running.Go(func() {
				t.Run(v.name+"/"+f.name, func(t *testing.T) { f.test(t, v) })
			})
		}
	}
	running.Wait()
}

// test makes the trial, and makes it again with twice the lease only if a stall of this process explains that it showed
// nothing.
func (f fault) test(t *testing.T, v variant) {
	for lease := trialLease; ; lease *= 2 {
		tr, ok := startTrial(t, v, cmp.Or(f.forks, time.Hour), lease)
		if !ok {
			require.True(t, tr.starved(), "the command does not start; %v", tr.meter)
		} else if f.try(t, tr) {
			return
		}
		require.Less(t, lease, 8*trialLease, "this machine is too busy; %v", tr.meter)
		tr.killAll()
	}
}

// try reports whether the trial shows anything: this process did not stand still when it mattered.
func (f fault) try(t *testing.T, tr *trial) bool {
	if f.waits == GuardianDied {
		tr.deadline = now().add(tr.lease) // the last renewal is no later than the fault
	} else if !tr.hold(t) {
		require.True(t, tr.starved(), "the command has ended before the fault; %v", tr.meter)
		return false
	}
	meter := stall.Watch(t) // of what comes after the fault
	f.inject(t, tr)
	tree := tr.variant.mode.Kind == Subreaper
	if f.waits != "" {
		cause, ok := tr.line(t, "waited")
		require.True(t, ok, "the supervisor has ended, and Wait has not returned")
		require.True(t, tr.command.over(t), "Wait has returned, and the command runs")
		require.True(t, tr.rest.over(t), "Wait has returned, and a descendant of the command runs")
		if tree && f.name == "init killed" {
			f.waits = Exited // by a signal: without an init, the command itself was killed
		}
		if f.waits == GuardianDied && cause == string(Deadline) && tr.starved() {
			return false
		}
		require.Equal(t, string(f.waits), cause)
	}
	if f.terms {
		tr.polite.await(t, "what TERM ends")
		require.Less(t, tr.polite.at, tr.deadline.add(-trialMargin-trialStop-time.Second+meter.Stalled()), "TERM was sent late; %v", meter)
	}
	seen := tr.command.endsBy(t, "the command", tr.deadline)
	last := tr.command.at
	lives := f.uncovered && tree
	if !lives {
		seen = tr.rest.endsBy(t, "a descendant of the command", tr.deadline) && seen
		last = max(last, tr.rest.at)
	}
	if end := tr.deadline.add(-trialTimer - 400*time.Millisecond); f.supervised && last > end { // soon the kernel would end it
		due := tr.deadline.add(-trialMargin + trialPatience*5/4) // without a stall
		require.LessOrEqual(t, last, due.add(meter.Stalled()), "the supervisor or the guardian was late; %v", meter)
		return false
	}
	if !seen {
		return false
	}
	if f.remedy != nil || lives {
		time.Sleep(tr.deadline.sub(now())) // nothing may change until the lease ends
	}
	if lives {
		require.False(t, tr.rest.over(t), "Mode.Uncovered names a fault that is covered")
	}
	if f.remedy != nil {
		f.remedy(tr)
		_, ok := tr.line(t, "waited")
		require.True(t, ok)
		require.True(t, tr.rest.over(t))
	}
	return true
}
