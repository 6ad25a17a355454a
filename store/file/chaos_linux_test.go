package file

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/whole"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

var chaosFor = flag.Duration("chaos", 8*time.Second, "how long TestChaos kills and stops 8 processes, or 20 if that is a minute or more")

// TestChaos starts processes, and sends them SIGKILL, SIGSTOP and SIGCONT at random. By one clock, which all of them
// read, no two lead at the same time, tokens grow, and there is a leader again in time: soon after a kill, and a TTL
// after a stop.
func TestChaos(t *testing.T) {
	t.Parallel()
	lasts, size := *chaosFor, 8
	if lasts >= time.Minute {
		size = 20
	}
	if !whole.Tests() {
		lasts /= 4
	}
	t.Run("kill", func(t *testing.T) { newChaos(t, size, 30*time.Second, 0).run(lasts * 3 / 10) })
	t.Run("kill and stop", func(t *testing.T) { newChaos(t, size, time.Second, 3).run(lasts * 7 / 10) })
}

// TestKilledLeaderIsReplacedAtOnce: the next process leads long before the TTL is over, although no process starts
// meanwhile that would check old sessions.
func TestKilledLeaderIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	c := newChaos(t, 5, 30*time.Second, 0)
	for len(c.members) > 0 {
		storetest.Eventually(t, func() bool { return c.leader() != nil }, "a leader")
		for _, p := range c.members {
			storetest.Eventually(t, func() bool { return p.journal.records[0].token.Load() != 0 }, "a ballot")
		}
		i := 0
		if leader := c.leader(); leader != nil { // otherwise it has just resigned
			i = *leader
		}
		c.report.note(c.members[i].name, "is killed")
		c.bury(c.members[i])
		c.members = slices.Delete(c.members, i, i+1)
	}
	c.report.check(t)
}

// TestFrozenLeaderIsReplacedInTime: soon after the TTL of a stopped process another one leads, whether the stopped one
// led or waited.
func TestFrozenLeaderIsReplacedInTime(t *testing.T) {
	waits(t)
	c := newChaos(t, 3, 4*time.Second, 1)
	for range 2 {
		storetest.Eventually(t, func() bool { return c.leader() != nil }, "a leader")
		frozen := c.members[0]
		if i := c.leader(); i != nil {
			frozen = c.members[*i]
		}
		meter := c.report.meter
		before := meter.Stalled()
		c.stop(frozen, 0)
		over := frozen.stopped + c.ttl
		led := func() bool {
			for _, p := range c.members {
				for _, term := range p.journal.tenures(p.name, 0) {
					if p != frozen && term.began > over {
						return true
					}
				}
			}
			return false
		}
		storetest.Eventually(t, led, "a leader when the TTL is over")
		require.Less(t, bootTime(), over+c.ttl/4+meter.Stalled()-before, "%v", meter)
		c.wake(frozen)
	}
	for _, p := range c.members {
		c.bury(p)
	}
	c.report.check(t)
}

// chaosMember is what a process in the chaos is given.
type chaosMember struct {
	Directory string
	TTL       time.Duration
	Journal   string
	Slow      bool // its system calls are delayed at random
	Follows   bool // it also follows: it withdraws the ballots of dead processes
}

var chaosRole = role("chaos", func(c chaosMember) error {
	j, err := openJournal(c.Journal)
	if err != nil {
		return err
	}
	config := completed(Config{Directory: c.Directory, TTL: c.TTL})
	var calls ops = kernel{}
	if c.Slow {
		calls = slow{calls}
	}
	d, err := newDriverWith(config, calls, durably)
	if err != nil {
		return err
	}
	st := newStore(d, config)
	candidate, err := leadership.NewCandidate(journaled{st, j}, "chaos", "member", nil)
	if err != nil {
		return err
	}
	if c.Follows {
		f, err := leadership.NewFollower(st, "chaos", nil)
		if err != nil {
			return err
		}
		f.Start()
	}
	for {
		term, err := candidate.Campaign(context.Background())
		switch {
		case err == nil:
		case errors.Is(err, leadership.ErrTokenRegressed), errors.Is(err, store.ErrInvalid), errors.Is(err, store.ErrDenied):
			return err
		default: // the session has ended
			time.Sleep(time.Millisecond)
			continue
		}
		if rand.N(2) == 0 {
			go func() { _ = term.Acknowledge(context.Background()) }()
		}
		j.lead(candidate, term, rand.N([]time.Duration{time.Microsecond, 10 * time.Millisecond, 300 * time.Millisecond}[rand.N(3)]))
		_ = term.Withdraw(context.Background())
	}
})

// slow delays some calls, for about as long as some terms last.
type slow struct{ ops }

func (s slow) delay() {
	if rand.N(20) == 0 {
		time.Sleep(rand.N(40 * time.Millisecond))
	}
}

func (s slow) symlink(target, path string) error { s.delay(); return s.ops.symlink(target, path) }

func (s slow) unlink(path string) error { s.delay(); return s.ops.unlink(path) }

func (s slow) mkdir(path string) error { s.delay(); return s.ops.mkdir(path) }

func (s slow) readlink(path string) (string, error) { s.delay(); return s.ops.readlink(path) }

// chaos is one run.
type chaos struct {
	t         *testing.T
	directory string // of the journals
	store     string
	as        []func(*exec.Cmd) // how the processes are started
	ttl       time.Duration
	stops     int // how many may be stopped at a time
	members   []*chaosProcess
	started   int
	report    chaosReport
}

// chaosProcess is one process in the chaos.
type chaosProcess struct {
	*process
	name    string
	journal *journal
	stopped time.Duration // since when; 0 if it runs
	stood   time.Duration // when it had stopped, at the latest
	wake    time.Duration // when it is continued
	freezes []freeze
}

func newChaos(t *testing.T, size int, ttl time.Duration, stops int) *chaos {
	c := &chaos{t: t, directory: t.TempDir(), ttl: ttl, stops: stops, report: chaosReport{ttl: ttl, meter: stall.Watch(t)}}
	c.store = c.directory + "/store"
	c.grow(size)
	return c
}

// grow starts some processes.
func (c *chaos) grow(size int) {
	for range size {
		c.members = append(c.members, c.start())
	}
}

func (c *chaos) start() *chaosProcess {
	c.started++
	p := &chaosProcess{name: fmt.Sprintf("process %d", c.started)}
	path := fmt.Sprintf("%s/%d.journal", c.directory, c.started)
	var err error
	p.journal, err = openJournal(path)
	require.NoError(c.t, err)
	require.NoError(c.t, os.Chmod(path, 0o666)) // the process might belong to another user
	p.process = start(c.t, chaosRole, chaosMember{c.store, c.ttl, path, c.started%2 == 0, c.started%4 < 2}, c.as...)
	c.report.note(p.name, "starts")
	return p
}

// run sends signals for some time, then resumes all until one leads, and checks the journals.
func (c *chaos) run(lasts time.Duration) {
	storetest.Eventually(c.t, func() bool { return c.leader() != nil }, "a first leader")
	for end := bootTime() + lasts; bootTime() < end; time.Sleep(rand.N(60 * time.Millisecond)) {
		c.act()
	}
	for _, p := range c.members {
		c.wake(p)
	}
	quiet := bootTime()
	led := func() bool {
		for _, p := range c.members {
			for _, t := range p.journal.tenures(p.name, 0) {
				if t.began > quiet {
					return true
				}
			}
		}
		return false
	}
	storetest.Eventually(c.t, led, "a leader when all processes go on")
	for _, p := range c.members {
		require.False(c.t, p.hasEnded(), "%s has ended by itself: %s", p.name, p.errors)
		c.bury(p)
	}
	c.report.check(c.t)
}

// act does one thing to one process: half of the time to the leader, if there is one.
func (c *chaos) act() {
	stopped, ready := 0, 0
	for i, p := range c.members {
		require.False(c.t, p.hasEnded(), "%s has ended by itself: %s", p.name, p.errors)
		if p.stopped != 0 && bootTime() >= p.wake {
			c.wake(p)
		}
		if p.journal.nearlyFull() {
			c.members[i] = c.replace(p)
		}
		if p.stopped != 0 {
			stopped++
		} else if p.journal.records[0].token.Load() != 0 {
			ready++
		}
	}
	victim := rand.N(len(c.members))
	if i := c.leader(); i != nil && rand.N(2) == 0 {
		victim = *i
	}
	p := c.members[victim]
	if stop := c.stops > 0 && rand.N(3) > 0; stop {
		if stopped < c.stops && p.stopped == 0 {
			lasts := rand.N(3 * c.ttl)
			if rand.N(6) == 0 {
				lasts = c.ttl + 3*margin/2 // for longer than the others may wait for it
			}
			c.stop(p, lasts)
		}
		return
	}
	if p.stopped != 0 && rand.N(8) > 0 {
		return // most go on by themselves
	}
	if ready >= len(c.members)/2 { // otherwise new ones have to start first, so that they might lead too
		c.members[victim] = c.replace(p)
	}
}

// leader returns the process that seems to lead, if one does.
func (c *chaos) leader() *int {
	for i, p := range c.members {
		if _, leads := p.journal.leads(); leads && p.stopped == 0 {
			return &i
		}
	}
	return nil
}

func (c *chaos) stop(p *chaosProcess, lasts time.Duration) {
	p.stopped = bootTime()
	p.wake = p.stopped + lasts
	c.report.note(p.name, "is stopped")
	require.NoError(c.t, p.Process.Signal(syscall.SIGSTOP))
	for err := error(syscall.EINTR); err != nil; { // until it is stopped: it may lead and resign meanwhile
		err = unix.Waitid(unix.P_PID, p.Process.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		require.True(c.t, err == nil || err == syscall.EINTR, "wait for the stop: %v", err)
	}
	p.stood = bootTime()
}

func (c *chaos) wake(p *chaosProcess) {
	if p.stopped == 0 {
		return
	}
	require.NoError(c.t, p.Process.Signal(syscall.SIGCONT))
	p.freezes = append(p.freezes, freeze{p.stopped, p.stood, bootTime()})
	p.stopped = 0
	c.report.note(p.name, "goes on")
}

// replace kills a process and starts another one.
func (c *chaos) replace(p *chaosProcess) *chaosProcess {
	c.report.note(p.name, "is killed")
	c.bury(p)
	return c.start()
}

// bury kills a process and records what it did.
func (c *chaos) bury(p *chaosProcess) {
	killed := bootTime()
	p.kill()
	if p.stopped != 0 {
		p.freezes = append(p.freezes, freeze{p.stopped, p.stood, killed})
	}
	c.report.add(p, killed)
	require.NotContains(c.t, p.errors.String(), "DATA RACE")
	require.NoError(c.t, p.journal.close())
	require.NoError(c.t, os.Remove(fmt.Sprintf("%s/%s.journal", c.directory, p.name[len("process "):])))
}
