package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
)

// mailbox is what one watch has told a ballot of one entry. The ballot's mu guards it.
type mailbox struct {
	watch   Watch  // written when it has been set
	known   bool   // the watch has told a state
	stale   bool   // the watch tells no more, or did not tell what has changed
	due     bool   // a resync is due. What is known counts until it has been read
	gone    bool   // no entry has the key, and none ever will
	session string // of the entry, even after it has gone
	first   bool   // the entry was known to be first, even after it has gone
}

// take puts news into the mailbox.
func (m *mailbox) take(n News) {
	if n.State != nil {
		m.known, m.gone = true, n.State.Token == 0
		if !m.gone {
			m.session, m.first = n.State.Session, n.State.First
		}
	}
	if n.Over || n.State == nil && n.AsOf.IsZero() {
		m.stale = true
	}
}

// needsRead reports whether an entry has to be watched and read. m may be nil: no watch has been set yet.
func (m *mailbox) needsRead() bool { return m == nil || m.stale || m.due }

// stop takes the watch back. m may be nil.
func (m *mailbox) stop() {
	if m != nil {
		m.watch.Stop()
	}
}

// step is what a ballot does next.
type step int

const (
	rest        step = iota // until the bell rings
	askAhead                // the nearest has gone, and there may be others ahead
	watchPrev               // the nearest ahead
	watchOwn                // the own entry
	watchLast               // the own entry, when none is ahead any more: if it stands then, the ballot is first
	unwatchPrev             // the ballot is first
)

// run is the ballot's goroutine: from Enter until the entry is gone, or the session.
func (b *ballot) run() {
	inRota := b.engine.rota.join(b.resync)
	b.stand()
	b.engine.rota.leave(inRota)
	b.finish()
}

// stand waits in the queue until the ballot is first, and then watches the own entry until the ballot is lost.
func (b *ballot) stand() {
	for b.Err() == nil {
		switch step, ctx := b.next(); step {
		case rest:
			select {
			case <-b.bell:
			case <-b.ctx.Done():
			}
		case askAhead:
			b.outcome(ctx, b.askAhead(ctx))
		case unwatchPrev:
			b.unwatch(&b.prev)
		default:
			b.outcome(ctx, b.watch(ctx, step))
		}
	}
}

// next looks at the nearest ahead before the own entry, so that it sees an end of the own entry that came first. ctx is
// for the step's request.
func (b *ballot) next() (s step, ctx context.Context) {
	b.engine.detect(b, b.ahead())
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.bell: // what it rang for is seen below
	default:
	}
	b.overtaken() // the step before is done
	waits, prevGone := !closed(b.first), b.prev != nil && b.prev.gone
	ctx, b.overtaken = b.ctx, func() {}
	switch {
	case !waits && b.prev != nil:
		return unwatchPrev, nil
	case waits && prevGone && b.more():
		return askAhead, ctx
	case waits && (prevGone || b.entry.Place.Nearest == ""):
		return watchLast, ctx
	case waits && b.prev.needsRead():
		s = watchPrev
	case b.own.needsRead():
		s = watchOwn
	default:
		return rest, nil
	}
	ctx, b.overtaken = context.WithCancel(b.ctx)
	return s, ctx
}

// more reports whether there may be others ahead once the nearest has gone. The caller holds mu.
func (b *ballot) more() bool { return b.entry.Place.More && !b.prev.first }

// finish removes the entry of a lost ballot. If a leader's work might depend on the ballot, its owner gives it back first.
// The watches stay until the removal, which the next in line waits for.
func (b *ballot) finish() {
	b.engine.detect(b, "")
	if b.works() {
		b.unwatchAll()
		select {
		case <-b.back:
		case <-b.session.ctx.Done():
		}
	}
	if closed(b.gone) {
		b.claim.settle()
	} else {
		b.claim.remove(b.entry.Key, b.remove, b.notRemoved)
	}
	b.unwatchAll()
}

// resync makes the ballot read all that it depends on, which counts meanwhile.
func (b *ballot) resync() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range []*mailbox{b.own, b.prev} {
		if m != nil && !m.gone {
			m.due = true
		}
	}
	ring(b.bell)
}

// outcome handles the result of a request. After an error that might pass, it waits a little, or until there is news.
func (b *ballot) outcome(ctx context.Context, err error) {
	borne := b.denied.bears(err, b.engine.settings.DenialTimeout)
	switch {
	case err == nil:
		b.retries.Reset()
	case b.Err() != nil:
	case errors.Is(err, ErrOver):
		b.session.ended()
	case ctx.Err() != nil: // the request was overtaken by news
	case adapter.Uncertain(err), borne:
		b.retries.PauseOr(b.ctx, b.bell)
	default: // such as a permission that was taken away
		b.lose(fmt.Errorf("%w: %w", store.ErrLost, err))
	}
}

// watch watches and reads an entry. What the new watch tells replaces what the one before has told.
func (b *ballot) watch(ctx context.Context, s step) error {
	at, key, tell, kind := &b.own, b.entry.Key, b.tellOwn, reads
	b.mu.Lock()
	if s == watchPrev {
		at, key, tell = &b.prev, b.entry.Place.Nearest, b.tellPrev
	}
	if s == watchLast || s == watchPrev && b.prev != nil && b.prev.stale { // the ballot is first if that has gone
		kind = leads
	}
	b.mu.Unlock()
	m := &mailbox{}
	err := b.engine.gate.send(ctx, kind, func() (err error) {
		m.watch, err = b.engine.driver.WatchEntry(ctx, key, tell(m))
		return err
	})
	if err != nil {
		return err
	}
	b.mu.Lock()
	old := *at
	*at = m
	if s == watchLast && m.known {
		b.lead()
	}
	b.mu.Unlock()
	old.stop()
	return nil
}

// errSame says that the service names an entry that has gone.
var errSame = fmt.Errorf("%w: the nearest ahead is the same", store.ErrUnavailable)

// askAhead asks what is ahead now that the nearest has gone. The answer that nothing is proves that the entry stands.
func (b *ballot) askAhead(ctx context.Context) error {
	var place Place
	err := b.engine.gate.send(ctx, leads, func() (err error) {
		place, err = b.engine.driver.Ahead(ctx, b.entry)
		return err
	})
	if err != nil && !errors.Is(err, ErrGone) {
		return err
	}
	b.mu.Lock()
	same, old := place.Nearest == b.entry.Place.Nearest, b.prev
	b.entry.Place, b.prev = place, nil // news of the old watch is ignored from now on
	switch {
	case err != nil:
		b.foundGone()
	case place.Nearest == "":
		b.lead()
	}
	b.mu.Unlock()
	old.stop()
	if same {
		return errSame
	}
	return nil
}

// tellOwn returns the Tell of the own entry's watch. It loses the ballot at once: the ballot's goroutine might be waiting
// for an answer.
func (b *ballot) tellOwn(m *mailbox) Tell {
	return func(n News) {
		b.mu.Lock()
		defer b.mu.Unlock()
		m.take(n)
		if n.State != nil && n.State.Resign && !closed(b.asked) {
			close(b.asked)
		}
		switch {
		case m.gone, n.State != nil && n.State.Token != b.entry.Token:
			b.foundGone()
		case m.stale && m == b.own:
			ring(b.bell)
		}
	}
}

// tellPrev returns the Tell of the watch of the nearest entry ahead. If that entry was the last one ahead, and the own
// entry stands, the ballot is first at once. Otherwise a read that is under way would say too little, and is given up.
func (b *ballot) tellPrev(m *mailbox) Tell {
	return func(n News) {
		b.mu.Lock()
		defer b.mu.Unlock()
		gone := m.gone
		m.take(n)
		switch {
		case m != b.prev: // the watch is being set, and is looked at then; or a newer one has replaced it
		case m.gone && !gone:
			if b.inOrder() {
				b.lead()
			}
			b.overtaken()
			ring(b.bell)
		case m.stale:
			ring(b.bell)
		}
	}
}

// inOrder reports whether the end of the own entry would have been told before the change that was just told of the
// nearest, which was the last one ahead. Entries of one session go in one transaction, which has no order.
func (b *ballot) inOrder() bool {
	return b.own != nil && !b.own.stale && b.own.watch.Stream != 0 &&
		b.own.watch.Stream == b.prev.watch.Stream && !b.more() && b.prev.session != b.session.id
}

// unwatch takes a watch back, if there is one.
func (b *ballot) unwatch(at **mailbox) {
	b.mu.Lock()
	m := *at
	*at = nil
	b.mu.Unlock()
	m.stop()
}

func (b *ballot) unwatchAll() {
	b.unwatch(&b.prev)
	b.unwatch(&b.own)
}

// ahead returns the session whose end the ballot waits for, if nothing but its peers end it.
func (b *ballot) ahead() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.engine.peers == nil || b.prev == nil || b.prev.gone || closed(b.first) || b.Err() != nil || b.prev.session == b.session.id {
		return ""
	}
	return b.prev.session
}
