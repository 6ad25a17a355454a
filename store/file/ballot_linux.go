package file

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// slot is what a session knows of the last cast in a slot. Only this process sends requests for it, so nothing of that need
// be in the directory.
type slot struct {
	mu   sync.Mutex // held while a request of the slot is carried out
	turn uint64     // guarded by mu, as are all below: of the last cast
	cast *cast      // the last cast
	void uint64     // the last turn that is void
}

// cast is a ballot of a session. The slot's mutex guards it until Enter has returned its ticket. Then it is constant, but for
// shown.
type cast struct {
	election string
	nonce    string
	try      uint64
	name     string // of its directory
	number   uint64 // of its ticket; 0 while none is known to stand

	mu    sync.Mutex // held while it is acknowledged
	shown string     // guarded by mu: the file with the value of the last acknowledgement
}

// Enter implements engine.Session. It makes the ballot's directory, and then a ticket that points to it.
func (s *session) Enter(ctx context.Context, election string, n engine.Nonce, value string) (engine.Entry, error) {
	return ask(ctx, s.driver, func() (e engine.Entry, err error) {
		slot := &s.slots[n.Slot]
		slot.mu.Lock()
		defer slot.mu.Unlock()
		if err := s.stands(); err != nil {
			return e, err
		}
		if n.Turn <= slot.void || n.Turn < slot.turn { // a later cast has the slot: the outcome of this one was known
			return e, engine.Answered(fmt.Errorf("%w: the nonce is void", store.ErrUnavailable))
		}
		if n.Turn > slot.turn {
			slot.turn, slot.cast = n.Turn, &cast{election: election, nonce: n.Name}
		}
		c, p := slot.cast, s.driver.dirOf(election)
		if c.number == 0 {
			if err := s.enter(p, c, value); err != nil {
				return e, err
			}
		}
		e = engine.Entry{Key: key(election, c.number, c.name), Token: c.number, Private: c}
		before, err := p.numbers(s.driver, p.queue()) // now that its own is there: an earlier listing might miss one that was being made
		if err != nil {
			return e, err
		}
		e.Place, err = p.ahead(s.driver, election, c.number, c.name, before)
		return e, err
	})
}

// enter makes a ballot with a ticket. If a ticket is void, or might not stand, its directory is withdrawn and gets no other
// ticket: other processes might have seen it. If a directory is removed meanwhile, all are made again.
func (s *session) enter(p electionDir, c *cast, value string) error {
	d := s.driver
	for tries := 0; ; tries++ {
		if c.name != "" {
			if err := p.withdraw(d, c.name); err != nil {
				return err
			}
		}
		c.try++
		c.name = ballotName(s.id, c.nonce, c.try)
		n, before, void, err := p.cast(d, c.name, value)
		switch {
		case err == nil && !void:
			c.number = n
			if size := len(before); size >= 64 && n%(1<<(bits.Len(uint(size))-2)) == 0 { // each quarter to half of the size
				d.life.Go(func() { d.collect(c.election) })
			}
			return nil
		case missing(err) && tries < 3:
			err = d.make()
		}
		if err != nil {
			if p.withdraw(d, c.name) != nil { // if there is a ticket, it points there
				err = fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
			}
			return err
		}
	}
}

// cast makes a ballot's directory, its ticket and its value. The value is written when the ticket is known not to be void: a
// ballot without one is not listed.
func (p electionDir) cast(d *driver, name, value string) (number uint64, before []uint64, void bool, err error) {
	err = d.makeElection(p)
	if err == nil {
		err = d.ops.mkdir(p.ballot(name))
	}
	if err == nil {
		err = d.allow(p.ballot(name), forDirs)
	}
	if err == nil {
		number, before, void, err = d.numbers.take(p.queue(), "../_b/"+name)
	}
	if err == nil && !void {
		err = d.makeFile(p.ballot(name)+"/.value", value)
	}
	if err == nil && !void { // in one step: a value that is half written is not listed
		err = d.ops.rename(p.ballot(name)+"/.value", p.ballot(name)+"/value")
	}
	return number, before, void, err
}

// numbers returns the numbers in one of the election's directories, in ascending order.
func (p electionDir) numbers(d *driver, dir string) ([]uint64, error) {
	names, err := d.ops.list(dir)
	if missing(err) {
		return nil, nil
	}
	return numbered(names), err
}

// ahead returns what is ahead of an entry among the given tickets. If nothing is, the entry stood after all ballots
// ahead of it were gone. More is exact: most old tickets belong to ballots that are gone, and the next leader need not
// check them when its turn comes.
func (p electionDir) ahead(d *driver, election string, number uint64, name string, tickets []uint64) (place engine.Place, err error) {
	at, _ := slices.BinarySearch(tickets, number)
	ahead := slices.Clone(tickets[:at])
	slices.Reverse(ahead)
	err = p.standing(d, ahead, func(n uint64, other string) (more bool, err error) {
		place.More = place.Nearest != ""
		if !place.More {
			place.Nearest = key(election, n, other)
		}
		return !place.More, nil
	})
	if err != nil || place.Nearest != "" {
		return place, err
	}
	session, _, _ := splitBallot(name)
	if s := d.owned(session); s == nil || s.stands() != nil {
		return place, engine.ErrOver
	}
	return place, p.gone(d, name)
}

// standing calls each with the ballots of some tickets that stand, until it wants no more.
func (p electionDir) standing(d *driver, tickets []uint64, each func(n uint64, name string) (more bool, err error)) error {
	seen := map[string]bool{}
	for _, n := range tickets {
		name, err := p.ticket(d, n)
		if err != nil {
			return err
		}
		stands, err := p.stands(d, name, seen)
		if err != nil {
			return err
		}
		if !stands {
			continue
		}
		if more, err := each(n, name); !more || err != nil {
			return err
		}
	}
	return nil
}

// gone returns ErrGone if a ballot does not stand.
func (p electionDir) gone(d *driver, name string) error {
	stands, err := p.stands(d, name, map[string]bool{})
	if err == nil && !stands {
		err = engine.ErrGone
	}
	return err
}

// ticket returns the ballot that a ticket points to; the empty name if there is none.
func (p electionDir) ticket(d *driver, n uint64) (name string, err error) {
	name, _, err = pointed(d, numberIn(p.queue(), n))
	if missing(err) {
		err = nil
	}
	return name, err
}

// stands reports whether a ballot stands: it has its directory, and its session does, which seen might say. It withdraws
// the ballot of a session that has ended, so that later calls of its owner have no effect.
func (p electionDir) stands(d *driver, name string, seen map[string]bool) (bool, error) {
	session, _, ok := splitBallot(name)
	if !ok {
		return false, nil
	}
	there, err := d.ops.exists(p.ballot(name))
	if !there || err != nil || seen[session] {
		return there, err
	}
	_, over, err := d.alive(session)
	if over {
		p.retire(d, name)
	}
	seen[session] = !over && err == nil
	return seen[session], err
}

// moment is how long what a withdrawn ballot has left stays, while processes that are told of a change use the processor and
// the disk. If this process is killed first, others remove it.
const moment = 5 * time.Millisecond

// withdraw withdraws a ballot with its acknowledgement: their directory gets another name. It is removed later.
func (p electionDir) withdraw(d *driver, name string) error {
	err := d.ops.rename(p.ballot(name), p.ballot("~"+name))
	switch {
	case missing(err):
		return nil
	case err == nil:
		d.life.Go(func() {
			adapter.PauseFor(d.life.Background, moment)
			d.clean(p.ballot("~" + name))
		})
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT): // the longer name needs a block; this needs none
		d.clean(p.ballot(name))
		if there, err2 := d.ops.exists(p.ballot(name)); !there && err2 == nil {
			return nil
		}
	}
	return err
}

// retire withdraws a ballot that does not stand, if the process may do that.
func (p electionDir) retire(d *driver, name string) {
	if err := p.withdraw(d, name); err != nil && !denied(err) {
		d.config.Logger.Debug("can't withdraw a ballot whose session has ended", "store", d.config.name(), "error", err)
	}
}

// Ahead implements engine.Driver.
func (d *driver) Ahead(ctx context.Context, e engine.Entry) (engine.Place, error) {
	return ask(ctx, d, func() (engine.Place, error) {
		election, number, name := splitKey(e.Key)
		p := d.dirOf(election)
		tickets, err := p.numbers(d, p.queue())
		if err != nil {
			return engine.Place{}, err
		}
		return p.ahead(d, election, number, name, tickets)
	})
}

// Void implements engine.Session.
func (s *session) Void(ctx context.Context, _ string, n engine.Nonce) error {
	return do(ctx, s.driver, func() error {
		slot := &s.slots[n.Slot]
		slot.mu.Lock()
		defer slot.mu.Unlock()
		slot.void = max(slot.void, n.Turn)
		if err := s.stands(); err != nil {
			return err
		}
		if c := slot.cast; c != nil && slot.turn == n.Turn && c.name != "" {
			return s.driver.dirOf(c.election).withdraw(s.driver, c.name)
		}
		return nil
	})
}

// Remove implements engine.Session.
func (s *session) Remove(ctx context.Context, r engine.Removal) error {
	return do(ctx, s.driver, func() error {
		election, _, name := splitKey(r.Key)
		if err := s.driver.dirOf(election).withdraw(s.driver, name); err != nil {
			return err
		}
		return s.stands()
	})
}

// resigns is the name of the file that asks a ballot's owner to resign.
const resigns = "resign"

// WatchEntry implements engine.Driver. A ballot whose ticket an operator has removed is withdrawn: the others do not count it.
func (d *driver) WatchEntry(ctx context.Context, k string, tell engine.Tell) (engine.Watch, error) {
	w := d.newWatch(tell)
	w.entry = true
	return d.watching(ctx, w, func() (engine.State, error) {
		election, number, name := splitKey(k)
		p := d.dirOf(election)
		session, nonce, _ := splitBallot(name)
		own := d.owned(session) // its entries go with the session: the error says so
		const gone = syscall.IN_MOVE_SELF | syscall.IN_DELETE_SELF
		err := w.dir(p.ballot(name), gone|syscall.IN_CREATE, resigns, func(mask uint32) { w.end(own == nil && mask&gone != 0) })
		over := false
		if err == nil {
			over, err = w.session(p, name)
		}
		switch {
		case missing(err) && own != nil:
			return engine.State{}, own.stands()
		case over && own != nil:
			return engine.State{}, engine.ErrOver
		case missing(err), over:
			return engine.State{}, nil
		case err != nil:
			return engine.State{}, err
		}
		if own != nil {
			const gone = syscall.IN_DELETE | syscall.IN_MOVED_FROM
			err := w.dir(p.queue(), gone, strconv.FormatUint(number, 10), w.changed)
			if err != nil && !missing(err) {
				return engine.State{}, err
			}
		}
		switch ticketed, err := p.ticket(d, number); {
		case err != nil:
			return engine.State{}, err
		case ticketed != name && own != nil:
			return engine.State{}, p.withdraw(d, name)
		case ticketed != name:
			return engine.State{}, nil
		}
		resign, err := d.ops.exists(p.ballot(name) + "/" + resigns)
		return engine.State{Token: number, Session: session, Nonce: nonce, Resign: resign}, err
	})
}

// watching sets a watch with the first state that read returns. All watches tell in the order of the events, which come in
// one queue.
func (d *driver) watching(ctx context.Context, w *watch, read func() (engine.State, error)) (engine.Watch, error) {
	state, err := ask(ctx, d, read)
	if err != nil {
		w.stop()
		return engine.Watch{}, err
	}
	w.tells(state)
	return engine.Watch{Stream: 1, Stop: w.stop}, nil
}

// RequestResignation implements engine.Driver.
func (d *driver) RequestResignation(ctx context.Context, election string, token uint64) error {
	return do(ctx, d, func() error {
		p := d.dirOf(election)
		name, err := p.ticket(d, token)
		if err != nil || name == "" {
			return err
		}
		err = d.makeFile(p.ballot(name)+"/"+resigns, "")
		if missing(err) || taken(err) {
			return nil
		}
		return err
	})
}
