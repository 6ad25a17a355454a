package consul

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/hashicorp/consul/api"
)

// ballot implements store.Ballot. From join on, its state is that of run's goroutine alone, but for what is marked.
//
// The set of ballots ahead only ever shrinks, because Consul numbers later ones higher. So the ballot is first the
// moment the last one ahead is deleted, without another request.
type ballot struct {
	adapter.Ballot
	store    *Store
	name     string // constant, as are session, token and doubtful after join
	session  *session
	token    uint64
	doubtful bool // a request to make it may still be on its way

	ahead  api.KVPairs // the nearest last
	before []string    // the sessions of all that were ahead at first; constant after join
	denied time.Time   // since when it has been denied what it needs; zero if it is not
	own    *watch
	prev   *watch // of the nearest ahead; nil where none is
	ack    ack
}

func (b *ballot) key() string { return b.store.layout.ballot(b.Election, b.name) }

// Token implements store.Ballot.
func (b *ballot) Token() uint64 { return b.token }

// Lease implements store.Ballot.
func (b *ballot) Lease() *store.Lease { return b.session.lease }

// join finds the ballot's place among those that the transaction which made it has listed.
func (b *ballot) join(pairs api.KVPairs) error {
	s, dir := b.store, b.store.layout.dir(b.Election)
	var own *api.KVPair
	list := queue(dir, pairs)
	for _, p := range list {
		if p.Key == b.key() {
			own = p
		}
	}
	if own == nil { // what may not be read is left out
		return fmt.Errorf("%w: the token may not read the keys below %q, it lacks key:read", store.ErrDenied, dir)
	}
	b.token = own.CreateIndex
	for _, p := range list {
		s.meet(b.session, b.Election, p.Key)
		if p.CreateIndex < b.token && !slices.ContainsFunc(b.ahead, func(q *api.KVPair) bool { return q.Key == p.Key }) {
			b.ahead = append(b.ahead, p)
			b.before = append(b.before, p.Session)
		}
	}
	slices.SortFunc(b.ahead, func(p, q *api.KVPair) int { return cmp.Compare(p.CreateIndex, q.CreateIndex) })
	e := entryOf(own)
	b.own = s.watch(b.key(), false, &e, e.modify)
	b.watchNearest()
	if b.prev == nil && s.config.LockDelay == 0 {
		b.Lead()
	}
	return nil
}

// watchNearest watches the nearest ballot ahead.
func (b *ballot) watchNearest() {
	if b.prev != nil {
		b.prev.leave()
		b.prev = nil
	}
	if n := len(b.ahead); n > 0 {
		e := entryOf(b.ahead[n-1])
		b.prev = b.store.watch(b.ahead[n-1].Key, false, &e, b.token)
	}
}

// run waits until the ballot is first, and then until it is lost. Close waits for it.
func (b *ballot) run() {
	s := b.store
	defer context.AfterFunc(b.session.ctx, func() { b.LoseWith(context.Cause(b.session.ctx)) })()
	defer context.AfterFunc(s.life.Calls, func() { b.LoseWith(adapter.ErrClosed) })()
	defer func() {
		b.own.leave()
		if b.prev != nil {
			b.prev.leave()
		}
		s.forget(b)
	}()
	for b.Err() == nil {
		own := b.own.see()
		var prev view
		if b.prev != nil {
			prev = b.prev.see()
		}
		switch {
		case own.err != nil:
			b.readAgain(b.own, own.err)
		case prev.err != nil:
			b.readAgain(b.prev, prev.err)
		case !own.exists:
			b.Lose("its key was deleted")
		case !stands(b.key(), own.entry) || own.create != b.token:
			b.Lose("its key was taken by somebody else")
			s.orphans.Add(b.orphan())
		case b.prev != nil && !stands(b.prev.key, prev.entry):
			b.advance()
		case b.prev == nil && !b.IsFirst():
			b.lead()
		default:
			select {
			case <-own.changed:
			case <-prev.changed:
			case <-b.Context().Done():
			}
		}
	}
}

// advance is called when the nearest ballot ahead is gone. Where it was not the only one, the names that are left tell
// which is the next, so that the number of requests does not grow with the number of ballots.
func (b *ballot) advance() {
	s := b.store
	b.ahead = b.ahead[:len(b.ahead)-1]
	for len(b.ahead) > 0 && b.Context().Err() == nil {
		names, err := request(b.Context(), s, func(ctx context.Context) ([]string, error) {
			names, _, err := s.client.KV().Keys(s.layout.dir(b.Election), "", s.consistent(ctx))
			return names, err
		})
		if err == nil && slices.Contains(names, b.key()) {
			b.ahead = slices.DeleteFunc(b.ahead, func(p *api.KVPair) bool { return !slices.Contains(names, p.Key) })
			break
		}
		if err == nil { // gone too, or not to be read any more, which a list does not tell: it says nothing
			if err = b.own.refresh(b.Context()); err == nil && !stands(b.key(), b.own.see().entry) {
				return // run sees to it: it looks at own before prev
			}
		}
		if !b.bears(err) {
			return
		}
		adapter.Pause(b.Context())
	}
	b.watchNearest()
}

// bears reports whether the ballot goes on after an error. A denial might come of an outage or of a cache: the ballot
// is given up, so that no other waits for it, if it has been denied for a TTL.
func (b *ballot) bears(err error) bool {
	switch {
	case err == nil || adapter.Uncertain(err):
		b.denied = time.Time{}
		return true
	case b.denied.IsZero():
		b.denied = time.Now()
	}
	if errors.Is(err, store.ErrDenied) && time.Since(b.denied) < b.store.config.TTL {
		return true
	}
	b.LoseWith(fmt.Errorf("%w: %w", store.ErrLost, err))
	b.store.orphans.Add(b.orphan())
	return false
}

// readAgain reads a key which the token may not read, as the watch has found.
func (b *ballot) readAgain(w *watch, err error) {
	if b.bears(err) {
		adapter.Pause(b.Context())
		if err := w.refresh(b.Context()); err == nil {
			b.denied = time.Time{}
		}
	}
}

// lead makes the ballot first: none is ahead. While the lease holds, the session has not expired, and whether it was
// ended otherwise its watch tells. Else the service is asked: the ballot may have gone before the one ahead of it.
func (b *ballot) lead() {
	_, holds := b.session.lease.Begin()
	for !holds && b.Context().Err() == nil {
		err := b.own.refresh(b.Context())
		if err == nil {
			if own := b.own.see(); !stands(b.key(), own.entry) {
				return // run sees to it
			}
			break
		}
		if !b.bears(err) {
			return
		}
		adapter.Pause(b.Context())
	}
	if b.store.config.LockDelay > 0 {
		b.takeSeat()
	}
	if b.Context().Err() == nil {
		b.Lead()
	}
}
