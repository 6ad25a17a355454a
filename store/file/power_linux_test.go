package file

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/whole"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// machine runs processes on a disk, from one power failure to the next.
type machine struct {
	t    *testing.T
	disk *disk
	root string
	born int // how many events of the history are older
}

func newMachine(t *testing.T) *machine {
	hub, err := openHub() // once, for all processes
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, hub.close()) })
	m := &machine{t: t, disk: newDisk(), root: t.TempDir()} // a store asks the system for the permissions of its directory
	p := m.disk.process()
	for i := range m.root {
		if i > 0 && m.root[i] == '/' {
			require.NoError(t, p.mkdir(m.root[:i]))
		}
	}
	m.disk.history = append(m.disk.history, diskEvent{all: true})
	m.born = len(m.disk.history)
	return m
}

// after returns the machine as it starts after a power failure.
func (m *machine) after(cut int, lost map[int]bool) *machine {
	after := &machine{t: m.t, disk: m.disk.crashed(cut, lost), root: m.root}
	after.born = len(after.disk.history)
	return after
}

// member is a process with a session.
type member struct {
	*driver
	session engine.Session
	casts   int
}

// open starts a process that is killed before a call; 0: never. The caller closes it.
func (m *machine) open(until int) (*member, error) {
	p := m.disk.process()
	p.until = until
	config := completed(Config{Directory: m.root, TTL: time.Hour})
	d, err := newDriverWith(config, p, durably)
	if err != nil {
		return nil, err
	}
	s, _, err := d.Open(m.t.Context())
	if err != nil {
		require.NoError(m.t, d.Close())
		return nil, err
	}
	return &member{driver: d, session: s}, nil
}

const election = "election"

// cast casts a ballot, and returns its token.
func (p *member) cast(t *testing.T) (engine.Entry, error) {
	p.casts++
	return p.session.Enter(t.Context(), election, engine.Nonce{Name: strconv.Itoa(p.casts), Turn: uint64(p.casts)}, "value")
}

// elect casts a ballot and acknowledges it, and returns the token and the revision.
func (p *member) elect(t *testing.T) (token, revision uint64, err error) {
	e, err := p.cast(t)
	if err == nil {
		revision, err = p.session.Acknowledge(t.Context(), e, "value")
	}
	return e.Token, revision, err
}

// given are the highest numbers that were given out.
type given struct{ token, revision uint64 }

// next elects a new process, and requires that its numbers are higher than those given.
func (m *machine) next(before given, what string) {
	m.t.Helper()
	p, err := m.open(0)
	require.NoError(m.t, err, what)
	token, revision, err := p.elect(m.t)
	require.NoError(m.t, p.Close())
	require.NoError(m.t, err, what)
	require.Greater(m.t, token, before.token, "token, %s", what)
	require.Greater(m.t, revision, before.revision, "revision, %s", what)
}

// fail cuts the power after the first events of the history. It requires that numbers do not go back in any state that
// might be left, or in some of them if there are many.
func (m *machine) fail(cut int, before given, most int, seen map[string]bool) {
	m.t.Helper()
	pending := m.disk.pending(cut)
	try := func(lost map[int]bool) {
		after := m.after(cut, lost)
		state := after.disk.tree()
		if seen[state] {
			return
		}
		seen[state] = true
		after.next(before, fmt.Sprintf("power fails after %d events, of %v is lost %v, is left:\n%s", cut, pending, lost, state))
	}
	if n := len(pending); n < 20 && 1<<n <= most {
		for set := range 1 << n {
			lost := map[int]bool{}
			for i, event := range pending {
				lost[event] = set&(1<<i) != 0
			}
			try(lost)
		}
		return
	}
	all := map[int]bool{}
	for i, event := range pending {
		all[event] = true
		if i < most { // the latest
			try(map[int]bool{event: true})
		}
	}
	try(nil)
	try(all)
	for range most {
		lost, share := map[int]bool{}, rand.Float64()
		for _, event := range pending {
			lost[event] = rand.Float64() < share
		}
		try(lost)
	}
}

// subsets is how many states at most are all tried. If there are more, this many are drawn at random.
func subsets() int {
	if !whole.Tests() {
		return 8
	}
	return 32
}

// TestPowerFailsAtEachCall: a process is elected in a new directory, and the power fails after each of its calls.
func TestPowerFailsAtEachCall(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	p, err := m.open(0)
	require.NoError(t, err)
	opened := len(m.disk.history)
	token, revision, err := p.elect(t)
	require.NoError(t, err)
	require.NoError(t, p.Close())
	t.Logf("%d events until it has a session, %d in all", opened, len(m.disk.history))
	seen := map[string]bool{}
	for cut := m.born; cut <= len(m.disk.history); cut++ {
		var before given
		if cut == len(m.disk.history) {
			before = given{token, revision}
		}
		m.fail(cut, before, subsets(), seen)
	}
	t.Logf("%d states", len(seen))
}

// TestPowerFailsAfterAKill: a process is killed before each of its calls. Another one is elected, and the power fails:
// it must make durable what the first one did not.
func TestPowerFailsAfterAKill(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for until := 1; ; until++ {
		require.Less(t, until, 1000)
		m := newMachine(t)
		p, err := m.open(until)
		if err == nil {
			_, _, err = p.elect(t)
			require.NoError(t, p.Close())
		}
		if err == nil {
			t.Logf("%d calls, %d states", until, len(seen))
			return
		}
		other, err := m.open(0)
		require.NoError(t, err)
		token, revision, err := other.elect(t)
		require.NoError(t, err, "another process after one was killed before call %d", until)
		require.NoError(t, other.Close())
		m.fail(len(m.disk.history), given{token, revision}, subsets(), seen)
	}
}

// TestPowerFailsInALongHistory: in each of some boots many ballots are cast and withdrawn, so that old tickets are
// removed and ends raised, until the power fails at a random moment. No token that was returned is given out again.
func TestPowerFailsInALongHistory(t *testing.T) {
	waits(t)
	m := newMachine(t)
	var before given
	for range 3 {
		type moment struct {
			events int
			given  given
		}
		moments := []moment{{m.born, before}}
		for range 3 {
			p, err := m.open(0)
			require.NoError(t, err)
			for range rand.N(600) {
				e, err := p.cast(t)
				require.NoError(t, err)
				require.Greater(t, e.Token, before.token)
				before.token = e.Token
				if rand.N(20) == 0 {
					revision, err := p.session.Acknowledge(t.Context(), e, "value")
					require.NoError(t, err)
					require.Greater(t, revision, before.revision)
					before.revision = revision
				}
				m.disk.mu.Lock()
				moments = append(moments, moment{len(m.disk.history), before})
				m.disk.mu.Unlock()
				if rand.N(10) > 0 {
					require.NoError(t, p.session.Remove(t.Context(), engine.Removal{Entry: e}))
				}
			}
			require.NoError(t, p.Close()) // its session goes on until the power fails
		}
		seen := map[string]bool{}
		for range 4 {
			at := moments[rand.N(len(moments))]
			m.fail(at.events, at.given, 2, seen)
		}
		at, lost := moments[rand.N(len(moments))], map[int]bool{}
		for _, event := range m.disk.pending(at.events) {
			lost[event] = rand.N(2) == 0
		}
		m, before = m.after(at.events, lost), at.given
	}
}
