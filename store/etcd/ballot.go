package etcd

import (
	"context"
	"fmt"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// ballot implements store.Ballot. After enter its state is that of run's goroutine alone, but for what is marked.
//
// The set of ballots ahead only ever shrinks, because later ones have higher revisions. So the ballot is first the
// moment the last one ahead is deleted, without another request.
type ballot struct {
	adapter.Ballot
	store   *Store
	name    string // constant, as are key, session and token after enter
	key     string
	session *session
	token   uint64

	predecessors []place // constant after enter: those that were ahead then

	ahead   []place // the nearest last
	deleted bool    // its key was deleted
	own     *watch  // nil before the first look
	prev    *watch  // of the nearest ahead; nil where none is
	ack     ack
}

// Token implements store.Ballot.
func (b *ballot) Token() uint64 { return b.token }

// Lease implements store.Ballot.
func (b *ballot) Lease() *store.Lease { return b.session.lease }

// Lose is the embedded ballot's, but for one that is being withdrawn: the news of its end may come before the answer.
func (b *ballot) Lose(why string) {
	if b.withdrawn() {
		why = withdrawn
	}
	b.Ballot.Lose(why)
}

// loseDeleted loses the ballot, whose key was deleted.
func (b *ballot) loseDeleted() {
	b.deleted = true
	b.Lose("its key was deleted")
}

// run waits until the ballot is first, and then until it is lost. Close waits for it.
func (b *ballot) run() {
	s := b.store
	look := s.looks.Join()
	defer s.looks.Leave(look)
	defer func() {
		s.watches.release(b.own)
		s.watches.release(b.prev)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.ballots, b)
		if b.deleted {
			delete(s.names, b.key)
		}
	}()
	// Requests end with the ballot, its session and the store.
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	defer context.AfterFunc(s.life.Calls, cancel)()
	err := b.look(ctx)
	for b.Err() == nil {
		if err != nil && ctx.Err() == nil && !b.session.over() {
			if !adapter.Uncertain(err) {
				b.LoseWith(fmt.Errorf("%w: %w", store.ErrLost, err))
				s.orphans.Add(orphan{ballot: b}) // so that nobody waits for it
				return
			}
			adapter.Pause(ctx)
			err = b.look(ctx)
			continue
		}
		var own, prev <-chan struct{}
		if b.own != nil {
			own = b.own.fired
		}
		if b.prev != nil {
			prev = b.prev.fired
		}
		select {
		case <-b.Context().Done():
		case <-s.life.Calls.Done():
			b.LoseWith(adapter.ErrClosed)
		case <-b.session.lost:
			b.Lose("the session has ended")
		case <-own:
			err = b.look(ctx)
		case <-prev:
			err = b.advance(ctx)
		case <-look:
			err = b.look(ctx)
		}
	}
}

// advance is called when the watch on the nearest ballot ahead has fired. Its deletion is enough to lead, since that of
// the own ballot is told before as a rule: events of one stream come in the order of the changes, unless the cluster
// can't send them as fast as they come. Two that change in one step, such as ballots of the same lease, have no order.
func (b *ballot) advance(ctx context.Context) error {
	nearest := b.ahead[len(b.ahead)-1]
	if b.own == nil || b.own.stream != b.prev.stream || !b.prev.gone() || nearest.lease == b.session.id {
		return b.look(ctx)
	}
	b.store.watches.release(b.prev)
	b.prev, b.ahead = nil, b.ahead[:len(b.ahead)-1]
	if len(b.ahead) > 0 { // as far as we know: who led before the one that is gone now went unseen
		stands, err := b.list(ctx)
		switch {
		case err != nil:
			return err
		case !stands:
			b.loseDeleted()
			return nil
		case len(b.ahead) > 0:
			return b.look(ctx)
		}
	}
	return b.lead()
}

// errLook says that the own ballot has changed: what was seen of it is out of date.
var errLook = fmt.Errorf("%w: the ballot has changed", store.ErrUnavailable)

// lead makes the ballot first if none is ahead, it has not been deleted and its session has not ended.
func (b *ballot) lead() error {
	switch {
	case len(b.ahead) > 0:
	case b.own != nil && b.own.gone():
		b.loseDeleted()
	case b.own != nil && b.own.hasFired():
		return errLook
	case b.session.over():
		b.Lose("the session has ended")
	default:
		b.Lead()
	}
	return nil
}

// look sees for itself how things are: after entering, an event that does not tell, a break of the stream, or for
// once. It sets the watches and then lists the queue, so that nothing happens unseen in between.
func (b *ballot) look(ctx context.Context) error {
	if b.own != nil && b.own.gone() {
		b.loseDeleted()
		return nil
	}
	for {
		nearest := ""
		if len(b.ahead) > 0 {
			nearest = b.ahead[len(b.ahead)-1].key
		}
		if err := b.rewatch(ctx, nearest); err != nil {
			return err
		}
		stands, err := b.list(ctx)
		switch {
		case err != nil:
			return err
		case !stands:
			b.loseDeleted()
			return nil
		case len(b.ahead) == 0:
			b.store.watches.release(b.prev)
			b.prev = nil
			return b.lead()
		case b.ahead[len(b.ahead)-1].key == nearest:
			return nil
		}
	}
}

// rewatch sees to it that there are watches on the own ballot and on the nearest ahead, neither of which has fired.
// Both are asked for at once.
func (b *ballot) rewatch(ctx context.Context, nearest string) error {
	ws := &b.store.watches
	if b.own != nil && b.own.hasFired() {
		ws.release(b.own)
		b.own = nil
	}
	if b.prev != nil && (b.prev.hasFired() || b.prev.key != nearest) {
		ws.release(b.prev)
		b.prev = nil
	}
	if b.own == nil {
		early := ws.join(b.key, false) // asked for before the other one is waited for
		defer ws.release(early)
	}
	if b.prev == nil && nearest != "" {
		w, err := b.store.watchKey(ctx, nearest)
		if err != nil {
			return err
		}
		b.prev = w
	}
	if b.own == nil {
		w, err := b.store.watchKey(ctx, b.key)
		if err != nil {
			return err
		}
		b.own = w
	}
	return nil
}

// list finds the ballots ahead, and whether the own one stands. A list that is older than the watches, or than the
// ballot, may miss some.
func (b *ballot) list(ctx context.Context) (stands bool, err error) {
	s := b.store
	dir := s.layout.dir(b.Election)
	resp, err := s.get(ctx, dir, clientv3.WithPrefix(), clientv3.WithMaxCreateRev(int64(b.token)),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		return false, err
	}
	if resp.Header.Revision < int64(b.token) {
		return false, nil // the cluster has been restored to a time before the ballot
	}
	if resp.Header.Revision < b.own.since || b.prev != nil && resp.Header.Revision < b.prev.since {
		return false, errBehind
	}
	b.ahead, stands = ahead(b.queue(resp.Kvs), int64(b.token))
	return stands, nil
}
