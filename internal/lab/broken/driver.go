package broken

import (
	"context"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// driver is the driver of a store with a flaw.
type driver struct {
	engine.Driver
	store *Store
}

func (d *driver) Open(ctx context.Context) (right engine.Session, p engine.Proof, err error) {
	err = d.store.do(ctx, "Open", func(ctx context.Context) error { right, p, err = d.Driver.Open(ctx); return err })
	return &session{right, d.store}, d.store.proof(p), err
}

func (d *driver) WatchEntry(ctx context.Context, key string, tell engine.Tell) (engine.Watch, error) {
	return d.store.watchEntry(ctx, key, tell)
}

func (d *driver) WatchLeader(ctx context.Context, election string, tell engine.Tell) (engine.Watch, error) {
	return d.store.watchLeader(ctx, election, tell)
}

func (d *driver) Ahead(ctx context.Context, e engine.Entry) (engine.Place, error) {
	p, err := d.store.ahead(ctx, e)
	return d.store.place(p), err
}

// First says nothing, so that the engine does not find what a flaw has left.
func (d *driver) First(context.Context, string) (engine.State, error) { return engine.State{}, nil }

// session is a session of the driver.
type session struct {
	engine.Session
	store *Store
}

func (x *session) Keep(ctx context.Context, renewed func(engine.Proof)) error {
	return x.store.keep(ctx, x.Session, func(p engine.Proof) { renewed(x.store.proof(p)) })
}

func (x *session) End(ctx context.Context, led []engine.Removal) error {
	return x.store.do(ctx, "End", func(ctx context.Context) error { return x.Session.End(ctx, led) })
}

func (x *session) Enter(ctx context.Context, election string, n engine.Nonce, value string) (e engine.Entry, err error) {
	err = x.store.do(ctx, "Enter", func(ctx context.Context) error {
		e, err = x.store.enter(ctx, x.Session, election, n, value)
		return err
	})
	e.Election, e.Place = election, x.store.place(e.Place)
	x.store.entries.Store(e.Key, e)
	return e, err
}

func (x *session) Void(ctx context.Context, election string, n engine.Nonce) error {
	return x.store.do(ctx, "Void", func(ctx context.Context) error { return x.Session.Void(ctx, election, n) })
}

func (x *session) Acknowledge(ctx context.Context, e engine.Entry, value string) (revision uint64, err error) {
	err = x.store.do(ctx, "Put", func(ctx context.Context) error {
		revision, err = x.Session.Acknowledge(ctx, e, value)
		return err
	})
	x.store.service.locked(func() {
		if err == nil {
			x.store.service.leaders[e.Election] = store.Leader{Value: value, Revision: revision}
		}
	})
	return revision, err
}

func (x *session) Remove(ctx context.Context, r engine.Removal) error {
	return x.store.do(ctx, "Remove", func(ctx context.Context) error { return x.Session.Remove(ctx, r) })
}

// entry returns an entry that this store has cast.
func (s *Store) entry(key string) (e engine.Entry, ok bool) {
	if v, found := s.entries.Load(key); found && key != "" {
		return v.(engine.Entry), true
	}
	return e, false
}

// watch is WatchEntry or WatchLeader of a driver.
type watch func(ctx context.Context, key string, tell engine.Tell) (engine.Watch, error)

// tells makes a watch change what it tells.
func (w *watch) tells(change func(key string, n *engine.News)) {
	right := *w
	*w = func(ctx context.Context, key string, tell engine.Tell) (engine.Watch, error) {
		return right(ctx, key, func(n engine.News) { change(key, &n); tell(n) })
	}
}
