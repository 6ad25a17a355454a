package guard

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// guardian is the state of the guardian process. It belongs to one goroutine, on the main thread.
type guardian struct {
	settings
	supervisor link
	requests   chan request // from begin on; closed by receive when the supervisor is dead
	kernel     killTimer
	alarm      *alarm
	ward       ward
	kill       instant // K, by the last renewal

	ending  Cause   // why the command has been sent TERM; empty before that
	stopped instant // when the time to stop is over, if ending is set
	killing bool
}

// ward is what the guardian ends: the init of a namespace, or a tree of processes.
type ward interface {
	start() error
	reports() <-chan report // from the init, closed when it is dead; nil without one
	signal(syscall.Signal)
	probe(request)
	stop() // TERM and CONT
	kill() // may be called again
	// unsent tries again to send the init what its queue had no room for, and reports whether some of it is left.
	unsent() bool
	// changed takes note of a child's new state and reports whether the rest is to be killed.
	changed(pid int, status syscall.WaitStatus) bool
}

// guardianMain is the guardian process. If it dies:
//
//   - before the supervisor has sent the end of the lease, or before the init is cloned: there is no command.
//   - between the clone and the init's PR_SET_PDEATHSIG: the init sees that the link has ended, and exits, even if the
//     message to start has come.
//   - after that: the kernel kills the init and with it the namespace. In the mode Subreaper the kernel kills the
//     command; the supervisor adopts what the command has started, and kills it.
//
// In each case the supervisor reaps the guardian, and waits for the processes that it has adopted.
func guardianMain(s settings, args []string) {
	g := &guardian{settings: s, supervisor: newLink(linkFD), requests: make(chan request)}
	children := watchChildren()
	if s.Mode == Namespace {
		g.ward = &namespace{settings: s, args: args}
	} else {
		g.ward = &tree{command: command{settings: s, args: args}, report: g.report}
	}
	err := g.begin()
	if err != nil {
		g.killing = true
		g.ward.kill() // the init, if it has been cloned
	}
	go receive(g.supervisor, g.requests)
	g.watch(children)
	if err != nil { // now that all reports of the init have been passed on: the first that tells of a failure counts
		g.report(report{Failed: err.Error(), Late: errors.Is(err, ErrLate)})
	}
}

// begin arms the timers and starts the command, or the init that will start it.
func (g *guardian) begin() (err error) {
	deadline, err := g.lease()
	if err != nil {
		return err
	}
	if g.kernel, err = newKillTimer(); err != nil {
		return err
	}
	if g.alarm, err = newAlarm(); err != nil {
		return err
	}
	if err := g.arm(deadline); err != nil {
		return err
	}
	if now() >= g.kill.add(-g.StopTimeout) {
		return fmt.Errorf("%w: in %v", ErrLate, deadline.sub(now()).Round(time.Millisecond))
	}
	g.report(report{Kill: g.kill})
	if err := g.ward.start(); err != nil {
		return err
	}
	if g.SelfTest && g.Mode == Subreaper {
		g.report(report{Started: true})
		g.freeze()
	}
	return nil
}

// lease receives the end of the lease. If the lease was renewed before this process ran, the latest end counts.
func (g *guardian) lease() (deadline instant, err error) {
	for deadline == 0 || g.supervisor.pending() {
		r, ok := receiveOne[request](g.supervisor)
		if !ok {
			return 0, errors.New("the supervisor died")
		}
		deadline = max(deadline, r.Deadline)
	}
	return deadline, nil
}

// arm sets the kernel's timer first and then the alarm. So the kernel's timer is armed whenever a command runs.
func (g *guardian) arm(deadline instant) error {
	if err := setKillTimer(g.kernel, deadline.add(-g.TimerMargin)); err != nil {
		return err
	}
	g.kill = deadline.add(-g.Margin)
	return g.setAlarm()
}

// setKillTimer is killTimer.set. Tests replace it.
var setKillTimer = killTimer.set

func (g *guardian) setAlarm() error {
	if g.ending == "" {
		return g.alarm.set(g.kill.add(-g.StopTimeout))
	}
	return g.alarm.set(min(g.stopped, g.kill))
}

// watch returns when wait4 reports ECHILD: nothing is left.
func (g *guardian) watch(children <-chan os.Signal) {
	reports, sweeps := g.ward.reports(), 0
	for !reap(g.changed) {
		var again <-chan time.Time
		switch {
		case g.killing:
			again = time.After(pause(sweeps))
			sweeps++
		case g.ward.unsent():
			again = time.After(flushInterval)
		}
		select {
		case r, ok := <-g.requests:
			g.tick()
			if !ok {
				g.requests = nil
				g.end(supervisorDied, g.StopTimeout)
				break
			}
			g.handle(r)
		case r, ok := <-reports:
			if !ok {
				reports = nil
				break
			}
			g.report(r)
			if r.Started && g.SelfTest {
				g.freeze()
			}
		case <-g.alarm.C:
			g.tick()
		case <-again:
			if g.killing {
				g.ward.kill() // what has been started meanwhile
			}
		case <-children:
		}
	}
	if reports != nil {
		for r := range reports {
			g.report(r)
		}
	}
}

func (g *guardian) changed(pid int, status syscall.WaitStatus) {
	if g.ward.changed(pid, status) {
		g.killing = true
		g.ward.kill()
	}
}

// freeze stops the guardian at the end of a self-test: the kernel's timer must kill the guardian.
func (g *guardian) freeze() { _ = unix.Kill(os.Getpid(), unix.SIGSTOP) }

// tick does what is due. It is called before a renewal is taken, so a renewal that arrives too late changes nothing.
func (g *guardian) tick() {
	n := now()
	if g.ending == "" && n >= g.kill.add(-g.StopTimeout) {
		g.end(Deadline, g.StopTimeout)
	}
	if n >= g.kill || g.ending != "" && n >= g.stopped {
		g.killing = true
		g.ward.kill()
	}
}

func (g *guardian) handle(r request) {
	switch {
	case r.Deadline != 0:
		g.renew(r.Deadline)
	case r.Signal != 0:
		g.ward.signal(r.Signal)
	case r.Probe != 0:
		g.ward.probe(r)
	case r.Stop:
		g.end(Stopped, r.Timeout)
	}
}

// renew takes a renewal, unless TERM was sent because a renewal was missing. If the command stops for another reason,
// the renewal lets the command use the rest of its time to stop.
func (g *guardian) renew(deadline instant) {
	if g.killing || g.ending != "" && g.ending != Stopped {
		return
	}
	if deadline.add(-g.Margin) > g.kill {
		if err := g.arm(deadline); err != nil {
			g.report(report{Note: err.Error()}) // the old deadline holds
		}
	}
	g.report(report{Kill: g.kill})
}

// end sends TERM. KILL follows after the timeout.
func (g *guardian) end(cause Cause, timeout time.Duration) {
	if g.ending != "" {
		return
	}
	g.ending, g.stopped = cause, now().add(timeout)
	g.report(report{Cause: cause})
	g.ward.stop()
	if g.setAlarm() != nil {
		g.stopped = 0 // no alarm: kill at the next event, which is this one
		g.tick()
	}
}

// report sends a report to the supervisor. An error is ignored: the supervisor is dead or stopped.
func (g *guardian) report(r report) { _ = g.supervisor.send(r) }
