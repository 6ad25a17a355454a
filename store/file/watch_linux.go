package file

import (
	"maps"
	"path"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/go-leadership/leadership/store/engine"
)

// watch is one watch of the engine's. It reports the state that was read when it was set, and then once that this might
// have changed: the engine reads again, with a new watch. So a state is never older than what was reported before.
type watch struct {
	driver *driver
	tell   engine.Tell
	entry  bool // it is of an entry

	mu      sync.Mutex // held while tell is called; taken before the driver's
	set     bool       // guarded by mu, as are all below: the state has been told
	over    bool       // there is news
	gone    bool       // and that is that the entry has gone
	stopped bool
	ends    []func() // what stop calls
}

// newWatch returns a watch that watches nothing yet. The caller stops it.
func (d *driver) newWatch(tell engine.Tell) *watch {
	w := &watch{driver: d, tell: tell}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watches[w] = struct{}{}
	return w
}

// dir watches a directory for some events, which news is called with.
func (w *watch) dir(dir string, mask uint32, name string, news func(mask uint32)) error {
	d := w.driver
	s, err := d.hub.add(dir, mask, name, func(mask uint32) { d.line.news(func() { news(mask) }) })
	if err != nil {
		return err
	}
	w.keep(func() { d.hub.remove(s) })
	return nil
}

// keep notes what ends something that belongs to the watch: stop calls it. If the watch has been stopped, keep does.
func (w *watch) keep(end func()) {
	w.mu.Lock()
	stopped := w.stopped
	if !stopped {
		w.ends = append(w.ends, end)
	}
	w.mu.Unlock()
	if stopped {
		end()
	}
}

// path watches a directory, or the nearest existing parent: it reports when the directory might have changed. It writes
// nothing, so a follower needs no permission to write.
func (w *watch) path(dir string, mask uint32) (exists bool, err error) {
	const ends = syscall.IN_DELETE_SELF | syscall.IN_MOVE_SELF
	for {
		at, child := dir, ""
		err := w.dir(at, mask|ends, "", w.changed)
		for missing(err) && at != "/" {
			at, child = path.Dir(at), at
			err = w.dir(at, syscall.IN_CREATE|syscall.IN_MOVED_TO|ends, path.Base(child), w.changed)
		}
		if err != nil || child == "" {
			return err == nil, err
		}
		if made, err := w.driver.ops.exists(child); !made || err != nil {
			return false, err
		}
	}
}

// moves watches whether a directory, or one above it, gets another name. Those that can't be watched are left out: then the
// next renewal notices.
func (w *watch) moves(dir string, news func(mask uint32)) {
	for ; dir != "/"; dir = path.Dir(dir) {
		_ = w.dir(dir, syscall.IN_MOVE_SELF, "", news)
	}
}

// session watches the session of a ballot, and reports whether it is over: then the ballot is withdrawn.
func (w *watch) session(p electionDir, name string) (over bool, err error) {
	id, _, _ := splitBallot(name)
	m, err := w.driver.join(w, id, func() { p.retire(w.driver, name) })
	if err != nil {
		return false, err
	}
	if over, err = m.look(); over {
		p.retire(w.driver, name)
	}
	return over, err
}

// tells reports the state that was read after the watch was set, and what has come since.
func (w *watch) tells(s engine.State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.set = true
	w.tell(engine.News{State: &s})
	if w.over {
		w.again()
	}
}

// changed is called when what is watched might have changed.
func (w *watch) changed(uint32) { w.end(false) }

// end reports once that something has changed; if gone, that the entry is gone for good.
func (w *watch) end(gone bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || w.stopped {
		return
	}
	w.over, w.gone = true, gone
	if w.set {
		w.again()
	}
}

// again tells that there is news. The caller holds mu.
func (w *watch) again() {
	if w.gone && w.entry {
		w.tell(engine.News{State: &engine.State{}})
	} else {
		w.tell(engine.News{Over: true})
	}
}

// confirmed reports that what was told is right as of a time.
func (w *watch) confirmed(asOf time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.set && !w.over && !w.stopped {
		w.tell(engine.News{AsOf: asOf})
	}
}

// stop ends the watch.
func (w *watch) stop() {
	d := w.driver
	w.mu.Lock()
	ends := w.ends
	w.stopped, w.ends = true, nil
	w.mu.Unlock()
	for _, end := range ends {
		end()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.watches, w)
}

// confirmed reports to all watches that what they have told is right as of a time.
func (d *driver) confirmed(asOf time.Time) {
	for _, w := range d.all() {
		w.confirmed(asOf)
	}
}

func (d *driver) all() []*watch {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.watches))
}

// monitor watches one session for all watches whose entries are in it: the kernel reports that its file was closed or
// removed, and a timer its deadline. A renewal is a rename, which is not reported.
type monitor struct {
	driver *driver
	id     string
	timer  *time.Timer  // calls check
	begun  func() error // calls begin once

	sub      *sub                // nil if the session was over before; guarded by the driver's mu, as are all below
	watches  map[*watch][]func() // what withdraws the session's ballots that each watches
	deadline time.Duration       // the session's, as of the last check
	retries  int                 // how often to check again soon
}

// join adds a watch to the monitor of a session. When the session is over, withdraw is called: a watch of the leader checks
// ballots of several sessions, and each ends with its own. No lock is held while the session's directory is looked up. A
// watch that joins meanwhile waits for that too.
func (d *driver) join(w *watch, id string, withdraw func()) (*monitor, error) {
	d.mu.Lock()
	m := d.monitors[id]
	if m == nil {
		m = &monitor{driver: d, id: id, watches: map[*watch][]func(){}}
		m.timer = time.AfterFunc(time.Hour, func() { d.life.Go(m.check) }) // look says when
		m.begun = sync.OnceValue(m.begin)
		d.monitors[id] = m
	}
	m.watches[w] = append(m.watches[w], withdraw)
	d.mu.Unlock()
	if err := m.begun(); err != nil {
		m.leave(w)
		return nil, err
	}
	w.keep(func() { m.leave(w) })
	return m, nil
}

// begin watches the session's directory, if it is still there.
func (m *monitor) begin() error {
	d := m.driver
	const ends = syscall.IN_CLOSE_WRITE | syscall.IN_DELETE | syscall.IN_DELETE_SELF
	s, err := d.hub.add(d.sessionDir(m.id), ends, "", func(uint32) { d.line.news(m.closed) })
	if err != nil && !missing(err) {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	m.sub = s // the watch that has made the monitor keeps it until then
	return nil
}

func (m *monitor) leave(w *watch) {
	d := m.driver
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(m.watches, w)
	if len(m.watches) == 0 {
		m.drop()
	}
}

// drop ends the monitor. The caller holds the driver's mu.
func (m *monitor) drop() {
	d := m.driver
	m.timer.Stop()
	if m.sub != nil {
		d.hub.remove(m.sub)
		m.sub = nil
	}
	if d.monitors[m.id] == m {
		delete(d.monitors, m.id)
	}
}

// closed is called when a file of the session's directory was removed or closed: the session might be over. If its
// process was killed, the lock might become free only a moment later.
func (m *monitor) closed() {
	m.driver.mu.Lock()
	defer m.driver.mu.Unlock()
	m.retries = 14
	m.timer.Reset(0)
}

// check checks the session, and reports to the watches if it is over.
func (m *monitor) check() {
	d := m.driver
	if over, err := ask(d.life.Background, d, m.look); err == nil && over { // if not, look has set the timer
		m.ended()
	}
}

// ended reports that the session is over. If the whole directory was moved away, the session might have ended there, and
// sessions of this store are over too: then it is not certain that its ballots are gone.
func (m *monitor) ended() {
	d := m.driver
	if s := d.owned(m.id); s != nil {
		_ = s.remove()
	}
	certain := d.present()
	d.hub.drain() // what happened before is reported before
	d.line.news(func() { m.over(certain) })
}

// lookAtDue checks the sessions that might be over: nothing may be confirmed of their ballots before that.
func (d *driver) lookAtDue() error {
	d.mu.Lock()
	var due []*monitor
	for _, m := range d.monitors {
		if m.retries > 0 || d.clock() >= m.deadline {
			due = append(due, m)
		}
	}
	d.mu.Unlock()
	for _, m := range due {
		over, err := m.look()
		if err != nil {
			return err
		}
		if over {
			m.ended()
		}
	}
	return nil
}

// over reports to the watches that the session is over, and whether it is certain that their ballots are gone: otherwise
// they are read again. The ballots are withdrawn.
func (m *monitor) over(certain bool) {
	d := m.driver
	d.mu.Lock()
	watches := maps.Clone(m.watches)
	own := d.sessions[m.id] != nil
	d.mu.Unlock()
	for w := range watches {
		w.end(!own && certain) // when an entry of our own is read again, WatchEntry says that the session has ended
	}
	d.life.Go(func() {
		for _, ballots := range watches {
			for _, withdraw := range ballots {
				withdraw()
			}
		}
	})
}

// look reports whether the session is over, and sets the timer if it is not.
func (m *monitor) look() (over bool, err error) {
	d := m.driver
	deadline, over, err := d.alive(m.id)
	d.mu.Lock()
	defer d.mu.Unlock()
	wait := d.config.TTL / 4
	m.deadline = deadline
	switch {
	case over:
		return true, nil
	case m.retries > 0: // 20 µs, and twice as long each time: a third of a second together
		wait = 10 * time.Microsecond << (15 - m.retries)
		m.retries--
	case err == nil:
		wait = max(deadline-d.clock(), 0) + time.Millisecond
	}
	if d.monitors[m.id] == m {
		m.timer.Reset(wait)
	}
	return false, err
}
