package faults

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// ttl is that of the sessions, unless a cell has another or the machine is too busy for it.
const ttl = 3 * time.Second

// The modes of leadership run, and the users.
const (
	namespace = "namespace"
	subreaper = "subreaper" // for which namespaces are denied
	unguarded = "unguarded"

	root     = "root"
	ordinary = "ordinary user"
)

var variants = []string{"plain", "child", "daemon", "forking"}

// cell is one trial: a fault of a wrapper that runs a command, in a mode, as a user.
type cell struct {
	machine  machine
	programs programs
	service  *service
	wrapper  wrapper
	fault    fault
	variant  string
	mode     string // of leadership run; others have none
	user     string
	old      string // the leadership program of the old contender
	dir      string
	ttl      time.Duration // of the next trial
	order    int           // of the cell among all
}

// election is the cell's own, on servers that many cells share.
func (c *cell) election() string { return filepath.Base(c.dir) }

func (c *cell) column() string {
	if c.mode == "" {
		return c.wrapper.name
	}
	return c.mode + ", " + c.user
}

// outcome is what the old command did after the rival's command had started.
type outcome struct {
	ttl   time.Duration // of the trial
	took  time.Duration // from the fault to the rival's start
	beats int           // of the old command, after the rival's start
	span  time.Duration // from the rival's start to the last of them
	alive bool          // processes of the command were left at the end
	going bool          // and were still beating
	why   string        // why the trial could not be made; or empty
}

func (o outcome) String() string {
	switch {
	case o.why != "":
		return o.why
	case o.going:
		return "for ever"
	case o.beats > 0 && o.alive:
		return fmt.Sprintf("%.1f ms, then frozen", float64(o.span)/1e6)
	case o.beats > 0:
		return fmt.Sprintf("%.1f ms", float64(o.span)/1e6)
	case o.alive:
		return "0 while frozen"
	}
	return "0"
}

// takeover is how long the election had no command, or two.
func (o outcome) takeover() string {
	if o.why != "" {
		return o.why
	}
	return fmt.Sprintf("%d ms", o.took.Milliseconds())
}

// window is how long the old command is watched after the rival's start, unless it ends before. consul lock gives its
// command 5 s between TERM and KILL.
func (c *cell) window() time.Duration {
	if !c.wrapper.guarded && (c.fault.after != nil || c.fault.needs == "network") {
		return 20 * time.Second
	}
	return time.Second
}

// errDisturbed says that a wrapper gave up by itself: the machine was too busy for the TTL.
var errDisturbed = errors.New("a wrapper has ended before the fault, or the rival before its command has started")

// try makes the trial. If it was disturbed, it is made again with twice the TTL.
func (c cell) try(t *testing.T) (o outcome) {
	const tries = 4
	c.ttl = cmp.Or(c.ttl, ttl)
	for n := range tries {
		ok := t.Run("ttl-"+c.ttl.String(), func(t *testing.T) {
			var err error
			if o, err = c.trial(t); err != nil && (n == tries-1 || !errors.Is(err, errDisturbed)) {
				t.Fatal(err)
			} else if err != nil {
				t.Logf("%v\n%s", err, c.logs())
				c.dir = ""
			}
		})
		if !ok || c.dir != "" {
			return o
		}
		c.ttl *= 2
	}
	return o
}

// logs returns what the wrappers have written.
func (c *cell) logs() (text string) {
	for _, name := range []string{"old", "next"} {
		log, _ := os.ReadFile(c.dir + "/" + name + ".log") // an error: it was not started
		text += name + ":\n" + string(log)
	}
	return text
}

// trial makes the fault once, and measures.
func (c *cell) trial(t *testing.T) (outcome, error) {
	c.prepare(t)
	rival := c.service.url(c)
	f := &scene{cell: c, t: t, url: rival}
	if c.fault.before != nil {
		c.fault.before(f)
	}
	f.old = c.start(t, "old", f.url, f.groups...)
	if c.fault.unborn {
		if !within(long, func() bool { return gone(f.old.Process.Pid) }) {
			return outcome{}, errors.New("the wrapper goes on without its guardian")
		}
	} else if !within(long, func() bool { return f.old.beats() >= 20 || gone(f.old.Process.Pid) }) {
		return outcome{}, errors.New("the old command does not start")
	}
	f.next = c.start(t, "next", rival)
	if standing := c.service.standing; standing != nil && !c.fault.unborn {
		if !within(long, func() bool {
			return standing(t, c) >= 2 || f.next.started() != 0 || gone(f.old.Process.Pid) || gone(f.next.Process.Pid)
		}) {
			return outcome{}, errors.New("the rival does not stand")
		}
	}
	if !c.fault.unborn && (f.next.started() != 0 || gone(f.old.Process.Pid) || gone(f.next.Process.Pid)) {
		return outcome{}, errDisturbed
	}
	if !c.fault.unborn {
		if err := f.find(); err != nil {
			return outcome{}, err
		}
	}
	from := bootTime()
	if c.fault.make != nil {
		c.fault.make(f)
	}
	if !within(c.service.patience+2*c.ttl+long, func() bool { return f.next.started() != 0 || gone(f.next.Process.Pid) }) {
		return outcome{}, errors.New("the rival's command does not start")
	}
	if f.next.started() == 0 {
		return outcome{}, errDisturbed // the rival was so slow to start that its own lease ran out
	}
	took := time.Duration(f.next.started() - from)
	t.Logf("the rival's command starts %v after the fault", took.Round(time.Millisecond))
	if c.fault.after != nil {
		c.fault.after(f)
	}
	within(c.window(), f.old.commandGone)
	o := f.measure()
	o.took, o.ttl = took, c.ttl
	return o, nil
}

// bootTime is the clock of a pulse.
func bootTime() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now)
	return now.Nano()
}

// prepare makes the directory of the trial.
func (c *cell) prepare(t *testing.T) {
	c.dir = publicDir(t)
	if c.user == ordinary && c.machine.root {
		require.NoError(t, os.Chown(c.dir, nobody, nobody))
	}
	c.dir = filepath.Clean(c.dir)
}

const nobody = 65534

// measure counts the beats of the old command since the rival's start.
func (f *scene) measure() (o outcome) {
	from := f.next.started()
	o.alive = !f.old.commandGone()
	if o.alive {
		before := f.old.beats()
		o.going = within(2*time.Second, func() bool { return f.old.beats() > before })
	}
	var last int64
	if o.beats, last = f.old.pulse.Since(from); o.beats > 0 {
		o.span = time.Duration(last - from)
	}
	return o
}
