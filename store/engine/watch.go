package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
)

// sight is what a ballot has been told of one entry by one watch. It is guarded by the ballot's mu.
type sight struct {
	watch   Watch
	known   bool   // it has told a state
	stale   bool   // it tells no more, or did not tell what has changed
	state   State  // the last one
	session string // of the entry, also when that has gone
	first   bool   // the entry was known to be first, likewise
}

// take notes news.
func (g *sight) take(n News) {
	if n.State != nil {
		g.known, g.state = true, *n.State
		if g.state.Token != 0 {
			g.session, g.first = g.state.Session, g.state.First
		}
	}
	if n.Over || n.State == nil && n.AsOf.IsZero() {
		g.stale = true
	}
}

// gone reports whether no entry has the key: none ever will.
func (g *sight) gone() bool { return g.known && g.state.Token == 0 }

// enter begins to look after a ballot whose entry has just been made.
func (b *ballot) enter() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.entry.Place.Nearest == "" {
		b.lead()
	}
	b.engine.queue.add(&b.item)
}

// tellOwn returns what the watch of the own entry calls.
func (b *ballot) tellOwn(g *sight) Tell {
	return func(n News) {
		b.mu.Lock()
		defer b.mu.Unlock()
		g.take(n)
		if g.state.Resign && !closed(b.asked) {
			close(b.asked)
		}
		switch {
		case g.known && g.state.Token != b.entry.Token:
			b.removed()
		case g.stale:
			b.engine.queue.add(&b.item)
		}
	}
}

// tellPrev returns what the watch of the nearest entry ahead calls. If that was the last one, and the own entry stands,
// the ballot is first at once.
func (b *ballot) tellPrev(g *sight) Tell {
	return func(n News) {
		b.mu.Lock()
		defer b.mu.Unlock()
		gone := g.gone()
		g.take(n)
		switch {
		case g != b.prev: // it is being set, and looked at then; or another one has taken over
		case g.gone() && !gone && b.inOrder():
			b.lead()
		case g.gone() || g.stale:
			b.engine.queue.add(&b.item)
		}
	}
}

// inOrder reports whether the end of the own entry would have been told before the change that was just told of the
// nearest, which was the last one ahead. Entries of one session go in one transaction, which has no order.
func (b *ballot) inOrder() bool {
	return b.own != nil && !b.own.stale && b.own.watch.Stream != 0 &&
		b.own.watch.Stream == b.prev.watch.Stream && !b.more() && b.prev.session != b.session.id
}

// more reports whether there may be others ahead once the nearest has gone.
func (b *ballot) more() bool { return b.entry.Place.More && !b.prev.first }

// resync makes a worker read anew all that the ballot depends on.
func (b *ballot) resync() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range []*sight{b.own, b.prev} {
		if g != nil && !g.gone() {
			g.stale = true
		}
	}
	b.engine.queue.add(&b.item)
}

// work does what next says until there is nothing to do. A worker calls it, one at a time for each ballot.
func (b *ballot) work() (again bool) {
	for {
		step := b.next()
		if step == nil {
			return false
		}
		err := step(b.ctx)
		borne := b.denied.bears(err, b.engine.settings.DenialTimeout)
		switch {
		case err == nil, b.Err() != nil: // if it is lost, next takes the watches back
		case errors.Is(err, ErrOver):
			b.session.ended()
		case adapter.Uncertain(err), borne:
			adapter.Pause(b.ctx)
			return true
		default: // such as a permission that was taken away
			b.lose(fmt.Errorf("%w: %w", store.ErrLost, err))
			if !b.works() { // if it does, its owner gives it back when the leader's work has stopped
				b.discard() // so that those behind it don't wait for it
			}
		}
	}
}

// next returns what has to be done next, or nil. It is the ballot's state machine: each step sends one request, and its
// answer is a change of state, after which next is asked again.
func (b *ballot) next() (step func(context.Context) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	place := &b.entry.Place
	lost := b.Err() != nil
	if ahead := b.ahead(); ahead != b.detects {
		old := b.detects
		b.detects = ahead
		return func(context.Context) error { b.engine.detect(b, old, ahead); return nil }
	}
	leads, own := closed(b.first), b.own == nil || b.own.stale
	switch {
	case b.prev != nil && (lost || leads):
		return b.drop(&b.prev)
	case b.own != nil && lost:
		return b.drop(&b.own)
	case lost && b.gone && !b.forgotten:
		b.forgotten = true
		return func(context.Context) error { b.session.forget(b, b.nonce.Name); return nil }
	case lost:
		return nil
	case b.prev != nil && b.prev.gone():
		if b.more() {
			return b.askAhead
		}
		*place = Place{} // none is ahead: only the own entry must be read
		return b.drop(&b.prev)
	case !leads && place.Nearest != "" && (b.prev == nil || b.prev.stale):
		if _, ok := b.engine.driver.(PairWatcher); ok && own {
			return b.watch(&sight{}, &sight{})
		}
		return b.watch(nil, &sight{})
	case own, !leads && place.Nearest == "":
		return b.watch(&sight{}, nil)
	}
	return nil
}

// ahead returns the session whose end the ballot waits for, if nothing but this process ends it. The caller holds mu.
func (b *ballot) ahead() string {
	if b.engine.peers == nil || b.prev == nil || b.prev.gone() || b.prev.session == b.session.id {
		return ""
	}
	return b.prev.session
}

// drop takes a watch back. The caller holds mu.
func (b *ballot) drop(at **sight) func(context.Context) error {
	g := *at
	*at = nil
	return func(context.Context) error { g.stop(); return nil }
}

func (g *sight) stop() {
	if g != nil {
		g.watch.Stop()
	}
}

// watch returns a step that watches and reads the own entry, the nearest ahead, or both in one request. It puts what
// the watches tell in place of what those before have told. If none is ahead, and so none was before the read was sent,
// its answer proves that the own entry outlived all: the ballot is first, unless it is lost. The caller holds mu.
func (b *ballot) watch(own, prev *sight) (step func(context.Context) error) {
	driver, key, nearest := b.engine.driver, b.entry.Key, b.entry.Place.Nearest
	return func(ctx context.Context) error {
		err := b.engine.outage.send(ctx, func() (err error) {
			switch {
			case prev == nil:
				own.watch, err = driver.WatchEntry(ctx, key, b.tellOwn(own))
			case own == nil:
				prev.watch, err = driver.WatchEntry(ctx, nearest, b.tellPrev(prev))
			default:
				own.watch, prev.watch, err = driver.(PairWatcher).Pair(ctx, key, nearest, b.tellOwn(own), b.tellPrev(prev))
			}
			return err
		})
		if err != nil {
			return err
		}
		b.mu.Lock()
		oldOwn, oldPrev := replace(&b.own, own), replace(&b.prev, prev)
		if nearest == "" && own.known {
			b.lead()
		}
		var ahead State
		if prev != nil {
			ahead = prev.state
		}
		b.mu.Unlock()
		oldOwn.stop()
		oldPrev.stop()
		b.meet(ahead)
		return nil
	}
}

// replace puts g, unless it is nil, in place of another, and returns that one, to be stopped.
func replace(at **sight, g *sight) (old *sight) {
	if g != nil {
		old, *at = *at, g
	}
	return old
}

// meet looks whether the nearest ahead is an entry of this session that belongs to no ballot.
func (b *ballot) meet(nearest State) {
	if nearest.Token != 0 && nearest.Session == b.session.id && nearest.Nonce != "" {
		b.session.stray(b.entry.Election, nearest.Nonce)
	}
}

// errSame says that the service names an entry that has gone, or an obstacle that is back.
var errSame = fmt.Errorf("%w: the nearest ahead is the same", store.ErrUnavailable)

// askAhead asks what is ahead now that the nearest has gone. The answer that nothing is proves that the entry stands.
func (b *ballot) askAhead(ctx context.Context) error {
	var place Place
	err := b.engine.outage.send(ctx, func() (err error) {
		place, err = b.engine.driver.Ahead(ctx, b.entry)
		return err
	})
	if err != nil && !errors.Is(err, ErrGone) {
		return err
	}
	b.mu.Lock()
	nonces := place.Nonces
	place.Nonces = nil
	same, old := place.Nearest == b.entry.Place.Nearest, b.prev
	b.entry.Place, b.prev = place, nil // what the old watch tells from now on is of no interest
	switch {
	case err != nil:
		b.removed()
	case place.Nearest == "":
		b.lead()
	}
	b.mu.Unlock()
	old.stop()
	for _, nonce := range nonces {
		b.session.stray(b.entry.Election, nonce)
	}
	if same {
		return errSame
	}
	return nil
}
