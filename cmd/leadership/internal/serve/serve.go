// Package serve is what leadership serve serves: who leads the elections of a store, who waits, and what is wrong, the
// most urgent first. It changes nothing.
//
// Readers begin here: a Server follows the elections (serve.go) and reads their queues (queues.go). What it knows at a
// moment is a Snapshot, and NewModel says what the page shows of it (model.go). The paths are in http.go. What has
// changed on the page goes to the browsers that look (events.go), and each change of a leader into a file (history.go).
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/metrics"
	"github.com/go-leadership/leadership/internal/visible"
	"github.com/go-leadership/leadership/store"
)

// Config are the settings of a server.
type Config struct {
	Store     store.Store
	Address   string        // of the store, without a password
	Host      string        // a name of this server that requests may have, besides addresses and local names
	Bound     time.Duration // how long an election may be without a leader after a crash
	Elections []string      // to follow. None: all that the store lists
	History   string        // a file to which changes are appended. Default: none
	Logger    *slog.Logger
}

// The limits of a server.
const (
	listEvery     = 10 * time.Second // new elections are found within that time
	mostElections = 10_000
	forgetAfter   = 24 * time.Hour // an election that is listed no more, and has no leader
	mostChanges   = 1000
)

// Server follows elections, and is the handler of the page. New makes one.
type Server struct {
	Config
	metrics  metrics.Set
	history  *history // nil if there is none
	ctx      context.Context
	stop     context.CancelFunc
	tasks    sync.WaitGroup // list, readQueues, and a goroutine for each election
	closing  sync.Once
	streams  chan struct{} // has one for each event stream; Close fills it
	wake     chan struct{} // has one if a queue might be due
	troubles troubles

	mu        sync.Mutex
	elections map[string]*election // guarded by mu, as are all below
	changes   []Change             // the last ones, the latest last
	before    map[string]Change    // the last change in the history of each election that was not seen yet
	asked     time.Time            // when the page was asked for last
	settled   chan struct{}        // closed and replaced by due when no queue is due
	published published
}

// election is an election that is followed. The server's mu guards it.
type election struct {
	Election // but for what is computed: AsOf, Fresh, Changes, Err
	follower *leadership.Follower
	listed   time.Time   // when it was listed last
	blind    bool        // the store has not answered for a TTL: the time of a change is not known
	hour     []time.Time // when its leader changed
	tried    time.Time   // when an attempt to read the queue began last
	changed  bool        // the leader has, since then
}

// New returns a server that follows the elections until Close.
func New(c Config) (*Server, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		Config: c, streams: make(chan struct{}, mostStreams), wake: make(chan struct{}, 1), troubles: troubles{log: c.Logger},
		elections: map[string]*election{}, settled: make(chan struct{}), published: newPublished(),
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	if c.History != "" {
		var err error
		if s.history, s.changes, s.before, err = openHistory(c.History, c.Address, s.troubles.note); err != nil {
			return nil, err
		}
		for i := range s.changes {
			s.changes[i].seq = s.published.next()
		}
	}
	for _, name := range c.Elections {
		if err := s.follow(name, true); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	if len(c.Elections) == 0 {
		s.tasks.Go(s.list)
	}
	s.tasks.Go(s.readQueues)
	return s, nil
}

// Close ends the server, and returns when nothing of it is left: no follower, no event stream. The store stays open.
// Closing twice is allowed.
func (s *Server) Close() (err error) {
	s.closing.Do(func() {
		s.stop()
		for range cap(s.streams) { // none begins from now on
			s.streams <- struct{}{}
		}
		s.tasks.Wait()
		if s.history != nil {
			err = s.history.end()
		}
	})
	return err
}

// list follows the elections that the store lists, now and every 10 s.
func (s *Server) list() {
	for {
		ctx, cancel := context.WithTimeout(s.ctx, listEvery)
		names, err := s.Store.Elections(ctx)
		cancel()
		if s.ctx.Err() != nil {
			return
		}
		s.troubles.note("the elections can't be listed, so new ones are not shown", err)
		if err == nil {
			s.update(names)
		}
		select {
		case <-time.After(listEvery):
		case <-s.ctx.Done():
			return
		}
	}
}

// update follows the elections that are new in a list, and forgets those that are long gone.
func (s *Server) update(names []string) {
	var tooMany error
	for _, name := range names {
		if err := s.follow(name, false); errors.Is(err, errTooMany) {
			tooMany = err
		}
	}
	s.troubles.note("some elections are not shown", tooMany)
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, e := range s.elections {
		if e.Leader.Revision == 0 && time.Since(e.listed) > forgetAfter {
			e.follower.Stop() // its goroutine ends
			delete(s.elections, name)
			s.metrics.Remove(name)
			s.published.forget(name)
		}
	}
}

// errTooMany says that the server follows no more elections.
var errTooMany = fmt.Errorf("the store has more than %d elections: choose with --election", mostElections)

// follow follows an election, if it is not followed yet.
func (s *Server) follow(name string, expected bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.elections[name]; e != nil {
		e.listed = time.Now()
		return nil
	}
	if len(s.elections) >= mostElections {
		return errTooMany
	}
	f, err := leadership.NewFollower(s.Store, name, &leadership.FollowerOptions{Logger: slog.New(slog.DiscardHandler), Events: s.event})
	if err != nil {
		return err
	}
	e := &election{Election: Election{Name: name, Expected: expected}, follower: f, listed: time.Now()}
	s.elections[name] = e
	s.metrics.Follower(f)
	s.tasks.Go(func() {
		for leader := range f.Changes(s.ctx) {
			s.saw(e, leader)
		}
		f.Stop()
		<-f.Done()
	})
	return nil
}

// event counts an event of a follower. If it has no answer, event notes why if it is a denial: an outage shows by itself.
func (s *Server) event(happened leadership.Event) {
	s.metrics.Event(happened)
	if happened.Kind != leadership.AttemptFailed {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.elections[happened.Election]; e != nil {
		if e.Denied = nil; errors.Is(happened.Err, store.ErrDenied) {
			e.Denied = happened.Err
		}
	}
}

// saw notes a leader, or that there is none. A gap is known only if both its ends were seen.
func (s *Server) saw(e *election, leader store.Leader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, first, known := time.Now(), e.Since.IsZero(), s.before[e.Name]
	c := Change{Time: now, Store: s.Address, Election: e.Name, AtStart: first}
	if leader.Revision != 0 {
		c.Leader = &ChangeLeader{visible.InJSON(leader.Value), leader.Revision}
		if e.Leader.Revision == 0 && !first && !e.AtLeast && !e.blind {
			gap := now.Sub(e.Since).Seconds()
			c.Gap = &gap
		}
	}
	e.Leader, e.Since, e.AtLeast = leader, now, first || e.blind
	e.Led = e.Led || leader.Revision != 0
	e.Queue.Behind, e.changed = true, true
	s.wakeUp()
	if first && known.is(leader) { // nothing has changed since the last change in the history, if there is one
		if leader.Revision != 0 {
			e.Since, e.AtLeast = known.Time, known.AtStart
		}
	} else {
		s.add(e, c)
	}
	delete(s.before, e.Name)
}

// add adds a change to the page and to the history. The caller holds mu.
func (s *Server) add(e *election, c Change) {
	if !c.AtStart {
		e.hour = append(e.hour[max(0, len(e.hour)-mostChanges):], c.Time)
	}
	c.seq = s.published.next()
	s.changes = append(s.changes[max(0, len(s.changes)-mostChanges+1):], c)
	if s.history != nil {
		s.history.add(c)
	}
}

// snapshot returns what is known. The caller holds mu.
func (s *Server) snapshot(now time.Time) Snapshot {
	snap := Snapshot{TTL: s.Store.TTL(), Bound: s.Bound, Troubles: s.troubles.texts()}
	for _, e := range s.elections {
		e.AsOf, e.Fresh, e.Err = e.follower.AsOf(), e.follower.Fresh(), e.follower.Err()
		if e.Fresh {
			e.Denied = nil
		}
		old, _ := slices.BinarySearchFunc(e.hour, now.Add(-time.Hour), time.Time.Compare)
		e.hour = e.hour[old:]
		e.Changes = len(e.hour)
		snap.Elections = append(snap.Elections, e.Election)
	}
	return snap
}

// troubles are what the server itself can't do, and why.
type troubles struct {
	log  *slog.Logger
	mu   sync.Mutex
	list map[string]string // guarded by mu
}

// note notes what the last attempt has come to. The log has one line when a trouble begins, and one when it is over.
func (t *troubles) note(what string, err error) {
	t.mu.Lock()
	before, was := t.list[what]
	if err != nil {
		if t.list == nil {
			t.list = map[string]string{}
		}
		t.list[what] = what + ": " + err.Error()
	} else {
		delete(t.list, what)
	}
	t.mu.Unlock()
	switch {
	case err != nil && !was:
		t.log.Warn(what, "error", err)
	case err == nil && was:
		t.log.Info("it works again", "before", before)
	}
}

// texts returns the troubles as the page says them.
func (t *troubles) texts() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Sorted(maps.Values(t.list))
}
