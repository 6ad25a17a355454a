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
	"slices"
	"sync"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/jsonvalue"
	"github.com/go-leadership/leadership/internal/metrics"
	"github.com/go-leadership/leadership/store"
)

// Config are the settings of a server.
type Config struct {
	Store     store.Store
	Address   string        // of the store, without a password
	Bound     time.Duration // how long an election may be without a leader after a crash
	Elections []string      // to follow. None: all that the store lists, which is a store.Lister then
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
	id      string // random: of the numbers below, which begin anew with each server
	metrics metrics.Set
	history *history // nil if there is none
	ctx     context.Context
	stop    context.CancelFunc
	tasks   sync.WaitGroup // the goroutines of the server; one is added under mu, while ctx has not ended
	closing sync.Once
	wake    chan struct{} // has one if a queue might be due

	mu        sync.Mutex
	elections map[string]*election // guarded by mu, as are all below
	changes   []Change             // the last ones, the latest last
	troubles  map[string]string    // what does not work, by what it is
	before    map[string]Change    // the last change of each election, of the history
	reading   bool                 // a queue is being read
	asked     time.Time            // when the page was asked for last
	published published
}

// election is an election that is followed. The server's mu guards it.
type election struct {
	Election // but for what is computed: AsOf, Fresh, Changes, Err
	follower *leadership.Follower
	listed   time.Time   // when it was listed last
	tried    time.Time   // when an attempt to read the queue began last
	failed   bool        // that attempt has
	hour     []time.Time // when its leader changed
	none     time.Time   // since when it has no leader, if the server saw that change
}

// New returns a server that follows the elections until Close.
func New(c Config) (*Server, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		Config: c, id: newID(), wake: make(chan struct{}, 1), elections: map[string]*election{}, troubles: map[string]string{},
	}
	if _, ok := c.Store.(store.Lister); !ok && len(c.Elections) == 0 {
		return nil, fmt.Errorf("list the elections: %w", errors.ErrUnsupported)
	}
	s.published.begin()
	s.ctx, s.stop = context.WithCancel(context.Background())
	if c.History != "" {
		var err error
		if s.history, s.changes, s.before, err = openHistory(c.History, func(err error) { s.trouble("history", err) }); err != nil {
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
	s.tasks.Go(s.publish)
	return s, nil
}

// Close ends the server, and returns when nothing of it is left: no follower, no event stream. The store stays open.
// Closing twice is allowed.
func (s *Server) Close() (err error) {
	s.closing.Do(func() {
		s.mu.Lock()
		s.stop()
		s.mu.Unlock()
		s.tasks.Wait()
		if s.history != nil {
			err = s.history.end()
		}
	})
	return err
}

// run starts a goroutine of the server, unless the server has been closed.
func (s *Server) run(f func()) bool {
	if s.ctx.Err() != nil {
		return false
	}
	s.tasks.Go(f)
	return true
}

// pause waits, and reports whether the server goes on.
func (s *Server) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// list follows the elections that the store lists, now and every 10 s.
func (s *Server) list() {
	for first := true; first || s.pause(listEvery); first = false {
		ctx, cancel := context.WithTimeout(s.ctx, listEvery)
		names, err := s.Store.(store.Lister).Elections(ctx)
		cancel()
		if s.ctx.Err() != nil {
			return
		}
		s.trouble("list", err)
		if err == nil {
			s.update(names)
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
	s.trouble("number", tooMany)
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, e := range s.elections {
		if e.Leader.Revision == 0 && len(e.Queue.Ballots) == 0 && time.Since(e.listed) > forgetAfter {
			e.follower.Stop() // its goroutine ends
			delete(s.elections, name)
			s.metrics.Remove(name)
		}
	}
}

// errTooMany says that the server follows no more elections.
var errTooMany = fmt.Errorf("the store has more than %d elections: the others are not shown; choose with --election", mostElections)

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
	f, err := leadership.NewFollower(s.Store, name, &leadership.Options{Hooks: s.metrics.Hooks()})
	if err != nil {
		return err
	}
	e := &election{Election: Election{Name: name, Expected: expected}, follower: f, listed: time.Now()}
	if s.run(func() {
		for leader := range f.Changes(s.ctx) {
			s.saw(e, leader)
		}
		s.changed() // if the follower has ended by itself, the page says so
		<-s.ctx.Done()
		f.Stop()
		<-f.Done()
	}) {
		s.elections[name] = e
		s.metrics.Follower(f)
	}
	return nil
}

// saw notes a leader, or that there is none.
func (s *Server) saw(e *election, leader store.Leader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	first := e.Since.IsZero()
	e.Leader, e.Since, e.AtLeast = leader, now, first
	e.Led = e.Led || leader.Revision != 0
	e.Queue.Behind = true
	before, known := s.before[e.Name]
	switch c := s.changeOf(e.Name, leader, now); {
	case first && known && before.is(leader) && leader.Revision != 0: // the history has the change
		e.Since, e.AtLeast = before.Time, before.AtStart
	case first && leader.Revision == 0 && (!known || before.Leader == nil): // nothing has changed
	default:
		c.AtStart = first
		if leader.Revision != 0 && !e.none.IsZero() {
			gap := now.Sub(e.none).Seconds()
			c.Gap = &gap
		}
		s.note(e, c)
	}
	if e.none = (time.Time{}); leader.Revision == 0 && !first && e.follower.Fresh() {
		e.none = now
	}
	s.wakeUp()
}

func (s *Server) changeOf(election string, leader store.Leader, now time.Time) Change {
	c := Change{Time: now, Store: s.Address, Election: election}
	if leader.Revision != 0 {
		c.Leader = &ChangeLeader{jsonvalue.Of(leader.Value), leader.Revision}
	}
	return c
}

// note adds a change to the page and to the history. The caller holds mu.
func (s *Server) note(e *election, c Change) {
	if !c.AtStart {
		e.hour = append(e.hour[max(0, len(e.hour)-mostChanges):], c.Time)
	}
	c.seq = s.published.next()
	s.changes = append(s.changes[max(0, len(s.changes)-mostChanges+1):], c)
	if s.history == nil {
		return
	}
	if err := s.history.add(c); err != nil {
		s.setTrouble("history", err)
	}
}

// trouble notes what an attempt of the server has come to.
func (s *Server) trouble(what string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setTrouble(what, err)
}

// setTrouble is trouble. The caller holds mu. The log has one line when the trouble begins, and one when it is over.
func (s *Server) setTrouble(what string, err error) {
	before := s.troubles[what]
	switch {
	case err == nil && before != "":
		s.Logger.Info("it works again", "what", what)
		delete(s.troubles, what)
	case err != nil:
		if before == "" {
			s.Logger.Warn("the page goes on", "what", what, "error", err)
		}
		s.troubles[what] = troubles[what] + err.Error()
	}
}

// troubles are how the page says what does not work.
var troubles = map[string]string{
	"list": "the elections can't be listed, so new ones are not shown: ", "history": "the history has a gap: ",
}

// snapshot returns what is known. The caller holds mu.
func (s *Server) snapshot(now time.Time) Snapshot {
	snap := Snapshot{TTL: s.Store.TTL(), Bound: s.Bound}
	for _, what := range []string{"list", "number", "history"} {
		if text := s.troubles[what]; text != "" {
			snap.Troubles = append(snap.Troubles, text)
		}
	}
	for _, e := range s.elections {
		snap.Elections = append(snap.Elections, e.known(now))
	}
	return snap
}

// known returns what is known of an election.
func (e *election) known(now time.Time) Election {
	e.AsOf, e.Fresh, e.Err = e.follower.AsOf(), e.follower.Fresh(), e.follower.Err()
	old, _ := slices.BinarySearchFunc(e.hour, now.Add(-time.Hour), time.Time.Compare)
	e.hour = e.hour[old:]
	e.Changes = len(e.hour)
	return e.Election
}
