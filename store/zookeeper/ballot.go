package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-zookeeper/zk"
)

// ballot implements store.Ballot. From join on, its state is that of run's goroutine alone, but for what is marked.
//
// The set of ballots ahead only ever shrinks, because ZooKeeper numbers later ones higher. So the ballot is first the
// moment the last one ahead is deleted, without another request.
type ballot struct {
	adapter.Ballot
	store   *Store
	dir     string // constant, as are name, session and token after join
	name    string
	nonce   string
	session *session
	token   uint64

	ahead []place // the nearest last
	own   *watch
	prev  *watch // of the nearest ahead; nil where the ballot is first
	epoch uint64 // the connection on which the own node was last seen
	ack   ack
}

func (b *ballot) path() string { return b.dir + "/" + b.name }

// Token implements store.Ballot.
func (b *ballot) Token() uint64 { return b.token }

// Lease implements store.Ballot.
func (b *ballot) Lease() *store.Lease { return b.session.lease }

// join finds the ballot's place: its token, its session and the ballots ahead of it, with a watch on its own node and
// one on the nearest ahead. nodes is a list of the election's nodes that may have been taken too early.
func (b *ballot) join(ctx context.Context, nodes []string) error {
	s := b.store
	for {
		epoch, _ := s.connection()
		err := b.place(ctx, nodes)
		switch {
		case err == nil:
			b.epoch = epoch
			return nil
		case errors.Is(err, zk.ErrNoNode):
			return errAgain // deleted by somebody, or with its session
		case !adapter.Uncertain(err) || ctx.Err() != nil:
			return err
		}
		nodes = nil
		s.pause(ctx)
	}
}

// place does the work of join once.
func (b *ballot) place(ctx context.Context, nodes []string) error {
	s := b.store
	sess, err := s.await(ctx)
	if err != nil {
		return err
	}
	ahead, listed := s.layout.ahead(nodes, b.name)
	if !listed {
		nodes, err := request(ctx, s, func() ([]string, error) { return s.children(b.dir) })
		if err != nil {
			return err
		}
		if ahead, listed = s.layout.ahead(nodes, b.name); !listed {
			return zk.ErrNoNode
		}
	}
	b.ahead = slices.Clone(ahead)

	// Both watches at once: neither waits for the other's reply.
	type own struct {
		node
		*watch
	}
	ownSet := async(s, func() (own, error) {
		n, w, err := s.watchNode(ctx, b.path())
		return own{n, w}, err
	})
	err = b.watchNearest(ctx)
	o, ownErr := receive(ctx, ownSet)
	if ownErr != nil {
		return ownErr
	}
	if err != nil {
		return err
	}
	switch owner := o.stat.EphemeralOwner; {
	case owner == sess.id:
	case owner == s.conn.SessionID():
		return fmt.Errorf("%w: the session is new", store.ErrUnavailable) // keep is going to find it
	default:
		return errAgain // created in a session that is over, or by somebody else
	}
	b.session, b.own, b.token = sess, o.watch, uint64(o.stat.Czxid)
	if err := b.verify(ctx); err != nil {
		return err
	}
	return b.lead()
}

// watchNearest sets the watch on the nearest ballot ahead that still exists. Where the first one it tries is gone it
// takes a new list, so that the number of requests does not grow with the number of ballots.
func (b *ballot) watchNearest(ctx context.Context) error {
	s := b.store
	for b.prev = nil; len(b.ahead) > 0; {
		n, w, err := s.watchNode(ctx, b.dir+"/"+b.ahead[len(b.ahead)-1].name)
		if err == nil {
			b.prev = w
			b.ack.follows(n.stat.EphemeralOwner)
			return nil
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		if b.ahead = b.ahead[:len(b.ahead)-1]; len(b.ahead) == 0 {
			return nil
		}
		nodes, err := request(ctx, s, func() ([]string, error) { return s.children(b.dir) })
		if err != nil {
			return err
		}
		b.ahead = slices.DeleteFunc(b.ahead, func(p place) bool { return !slices.Contains(nodes, p.name) })
	}
	return nil
}

// run waits until the ballot is first, and then until it is lost. Close waits for it.
func (b *ballot) run() {
	s := b.store
	look := s.looks.Join()
	defer s.looks.Leave(look)
	defer func() {
		s.mu.Lock() // by now Close has ended the lease
		defer s.mu.Unlock()
		if s.life.Calls.Err() != nil || errors.Is(b.Err(), store.ErrClosed) {
			s.orphans.Add(b.orphan()) // Close waits for its removal
		}
		delete(s.ballots, b)
		s.nonces.free(b.nonce)
	}()
	// Requests end with the ballot, its session and the store.
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	defer context.AfterFunc(s.life.Calls, cancel)()
	for b.Err() == nil {
		epoch, changed := s.connection()
		if epoch != b.epoch { // reconnected since the last look
			changed = closed
		}
		var prev <-chan struct{}
		if b.prev != nil {
			prev = b.prev.fired
		}
		var err error
		select {
		case <-b.Context().Done():
		case <-s.life.Calls.Done():
			b.LoseWith(adapter.ErrClosed)
		case <-b.session.lost:
			b.Lose("the session has ended")
		case <-b.own.fired:
			err = b.look(ctx)
		case <-prev:
			err = b.advance(ctx)
		case <-changed:
			err = b.look(ctx)
		case <-look:
			err = b.look(ctx)
		}
		for ; err != nil && ctx.Err() == nil && !b.session.over(); err = b.look(ctx) {
			if store.Refused(err) {
				b.LoseWith(fmt.Errorf("%w: %w", store.ErrLost, err))
				s.orphans.Add(b.orphan()) // so that nobody waits for it
				return
			}
			if !errors.Is(err, errLook) {
				s.pause(ctx)
			}
		}
	}
}

// closed is a channel that is.
var closed = func() chan struct{} { ch := make(chan struct{}); close(ch); return ch }()

// advance is called when the watch on the nearest ballot ahead has fired.
//
// Its deletion is enough to lead only if the own node can't have been deleted before. The events of one connection
// come in the order of the changes, for watches that were set on it: those that the library sets again after a
// reconnection may fire in any order, and a connection that is not ours does not tell us the order.
func (b *ballot) advance(ctx context.Context) error {
	epoch, _ := b.store.connection()
	inOrder := b.own.epoch == epoch && b.prev.epoch == epoch && b.store.config.Conn == nil
	if !inOrder || b.own.hasFired() || !b.prev.gone() {
		return b.look(ctx)
	}
	b.ahead = b.ahead[:len(b.ahead)-1]
	if err := b.watchNearest(ctx); err != nil {
		return err
	}
	return b.lead()
}

// errLook says that the own node has changed: what was seen of it is out of date.
var errLook = fmt.Errorf("%w: the ballot has changed", store.ErrUnavailable)

// lead makes the ballot first if none is ahead, it has not been deleted and its session has not ended.
func (b *ballot) lead() error {
	switch {
	case b.prev != nil:
	case b.own.gone():
		b.Lose("its node was deleted")
		return zk.ErrNoNode
	case b.own.hasFired():
		return errLook
	case b.session.over():
		b.Lose("the session has ended")
	default:
		b.Lead()
	}
	return nil
}

// look sees for itself how things are, after an event that does not tell, a reconnection, or for once.
func (b *ballot) look(ctx context.Context) error {
	s := b.store
	if b.own.gone() {
		b.Lose("its node was deleted")
		return nil
	}
	epoch, _ := s.connection()
	n, own, err := s.watchNode(ctx, b.path())
	switch {
	case errors.Is(err, zk.ErrNoNode):
		b.Lose("its node was deleted")
		return nil
	case err != nil:
		return err
	case n.stat.EphemeralOwner != b.session.id || uint64(n.stat.Czxid) != b.token:
		b.Lose("its node was replaced by another")
		return nil
	}
	b.own, b.epoch = own, epoch
	if len(b.ahead) == 0 {
		b.prev = nil
	} else if err := b.watchNearest(ctx); err != nil {
		return err
	}
	if err := b.verify(ctx); errors.Is(err, zk.ErrNoNode) {
		b.Lose("its node was deleted")
		return nil
	} else if err != nil {
		return err
	}
	return b.lead()
}

// verify finds out that the own node still exists once none is found to be ahead. A connection that is not ours tells
// of events behind the answers that came after them: the own node may have gone before the last one ahead, unheard.
func (b *ballot) verify(ctx context.Context) error {
	if b.IsFirst() || b.prev != nil || b.store.config.Conn == nil {
		return nil
	}
	_, _, err := b.store.watchNode(ctx, b.path())
	return err
}
