package guard

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// fault is what befalls a trial.
type fault struct {
	name   string
	inject func(tr *trial)
	// waits: the supervisor lives, and its Wait returns.
	waits bool
	// terms: TERM is sent at once.
	terms bool
	// uncovered: in the mode Subreaper a descendant of the command outlives the lease.
	uncovered bool
	// pid1: the fault is also tried with a supervisor that is PID 1.
	pid1 bool
	// remedy, if there is one, lets Wait return after the lease.
	remedy func(tr *trial)
}

func (tr *trial) send(s unix.Signal, pids ...int) {
	for _, pid := range pids {
		_ = unix.Kill(pid, s)
	}
}

func (tr *trial) supervisor() int { return tr.cmd.Process.Pid }

// child is the guardian's child: the init, or the command.
func (tr *trial) child() int { return family(tr.guardian)[1] }

var faults = []fault{
	{name: "renewals end", inject: func(*trial) {}, waits: true},
	{name: "supervisor killed", inject: func(tr *trial) { tr.send(unix.SIGKILL, tr.supervisor()) }, terms: true},
	{name: "supervisor stopped", inject: func(tr *trial) { tr.send(unix.SIGSTOP, tr.supervisor()) }, pid1: true},
	{name: "guardian killed", inject: func(tr *trial) { tr.send(unix.SIGKILL, tr.guardian) }, waits: true, pid1: true},
	{name: "guardian stopped", inject: func(tr *trial) { tr.send(unix.SIGSTOP, tr.guardian) }, waits: true},
	{name: "init killed", inject: func(tr *trial) { tr.send(unix.SIGKILL, tr.child()) }, waits: true},
	{name: "init stopped", inject: func(tr *trial) { tr.send(unix.SIGSTOP, tr.child()) }, waits: true},
	{
		name: "supervisor and guardian killed", uncovered: true,
		inject: func(tr *trial) { tr.send(unix.SIGKILL, tr.supervisor(), tr.guardian) },
	}, {
		name: "supervisor and guardian stopped", uncovered: true,
		inject: func(tr *trial) { tr.send(unix.SIGSTOP, tr.supervisor(), tr.guardian) },
		remedy: func(tr *trial) { tr.send(unix.SIGCONT, tr.supervisor()) },
	}, {
		name: "all stopped", uncovered: true,
		inject: func(tr *trial) { tr.send(unix.SIGSTOP, family(tr.supervisor())...) },
		remedy: func(tr *trial) { tr.send(unix.SIGCONT, tr.tree...) },
	},
}

// TestFaults: whatever happens, the command and what it has started are dead before the lease ends, except where
// Mode.Uncovered says so. Wait returns only then, and does if the supervisor lives.
func TestFaults(t *testing.T) {
	require.NoError(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)) // see killAll
	var running sync.WaitGroup
	for _, v := range available(t) {
		for _, f := range faults {
			if v.pid1 && !f.pid1 {
				continue
			}
			running.Go(func() {
				t.Run(v.name+"/"+f.name, func(t *testing.T) { f.test(t, startTrial(t, v)) })
			})
		}
	}
	running.Wait()
}

func (f fault) test(t *testing.T, tr *trial) {
	tr.hold(t)
	f.inject(tr)
	lives := f.uncovered && tr.variant.mode.Kind == Subreaper
	if f.waits && !lives {
		tr.line(t, "waited")
		require.True(t, tr.command.over(t), "Wait has returned, and the command runs")
		require.True(t, tr.rest.over(t), "Wait has returned, and a descendant of the command runs")
	}
	if f.terms {
		tr.polite.await(t, "what TERM ends")
		require.Less(t, tr.polite.at, tr.deadline.add(-trialMargin-trialStop), "TERM was sent late")
	}
	tr.command.await(t, "the command")
	require.LessOrEqual(t, tr.command.at, tr.deadline, "the command outlived the lease")
	if !lives {
		tr.rest.await(t, "a descendant of the command")
		require.LessOrEqual(t, tr.rest.at, tr.deadline, "a descendant of the command outlived the lease")
	}
	if f.remedy != nil || lives {
		time.Sleep(tr.deadline.sub(now())) // what is covered has to be so until then
	}
	if lives {
		require.False(t, tr.rest.over(t), "Mode.Uncovered names a fault that is covered")
	}
	if f.remedy != nil {
		f.remedy(tr)
		tr.line(t, "waited")
		require.True(t, tr.rest.over(t))
	}
}
