package httpstore

import (
	"context"
	"time"

	"github.com/go-leadership/leadership/examples/httpstore/server"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// watch is what is watched by one of the engine's watches. The driver's mu guards its state.
type watch struct {
	key     string
	tell    engine.Tell // called under mu
	version uint64      // of the state that was told last
	index   uint64      // of the server, when that state was read: answers may overtake each other
}

// WatchEntry implements engine.Driver.
func (d *driver) WatchEntry(ctx context.Context, key string, tell engine.Tell) (engine.Watch, error) {
	return d.watch(ctx, key, tell)
}

// WatchLeader implements engine.Driver.
func (d *driver) WatchLeader(ctx context.Context, election string, tell engine.Tell) (engine.Watch, error) {
	return d.watch(ctx, server.LeaderKey(d.name(election)), tell)
}

// watch reads a key, and then waits for another version than the one it has read: nothing is missed between. One answer
// may tell of several changes, in any order: so the watches are of no stream.
func (d *driver) watch(ctx context.Context, key string, tell engine.Tell) (engine.Watch, error) {
	for {
		sent := time.Now()
		a, err := d.ask(ctx, "watch", server.Request{Watches: []server.Watch{{Key: key, Version: server.Unknown}}})
		if err != nil {
			return engine.Watch{}, err
		}
		if w, ok := d.begin(key, tell, a, sent); ok {
			return w, nil
		}
		pause(ctx, d.TTL/100) // the server that answers is behind
	}
}

// begin sets a watch with the answer that it begins with. It reports false if another watch of the key has told what is
// later than the answer: what is told of a key never goes back.
func (d *driver) begin(key string, tell engine.Tell, a server.Answer, sent time.Time) (engine.Watch, bool) {
	w := &watch{key: key, tell: tell, version: server.Unknown}
	d.mu.Lock()
	defer d.mu.Unlock()
	for other := range d.watches {
		if other.key == key && other.index > a.Index {
			return engine.Watch{}, false
		}
	}
	w.take(a, 0, server.Unknown, sent)
	d.watches[w] = struct{}{}
	d.next()
	return engine.Watch{Stop: func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.watches, w)
	}}, true
}

// take tells what an answer says of the i-th watch, whose request asked for another version than asked. An answer that
// nothing has changed is of no use if another version has been told since. The caller holds the driver's mu.
func (w *watch) take(a server.Answer, i int, asked uint64, sent time.Time) {
	state, changed := a.States[i]
	if a.Index < w.index || !changed && asked != w.version {
		return
	}
	w.index = a.Index
	if !changed {
		w.tell(engine.News{AsOf: sent})
		return
	}
	w.version = state.Version
	s := &engine.State{Token: state.Token, Session: state.Session, Nonce: state.Nonce, Resign: state.Resign}
	if state.Token == 0 {
		s.Leader = store.Leader{Value: string(state.Value), Revision: state.Version}
	}
	w.tell(engine.News{State: s, AsOf: sent})
}

// follow sends long polls. Two goroutines do: one sends the next at once when there is another watch, and the server then
// answers that of the other.
func (d *driver) follow() {
	for {
		select {
		case <-d.due:
		case <-d.ctx.Done():
			return
		}
		if d.poll() {
			d.next()
		}
	}
}

// next lets the next poll be sent.
func (d *driver) next() {
	select {
	case d.due <- struct{}{}:
	default:
	}
}

// poll waits for a change of what is watched, and tells of it. It reports whether no later poll has been sent.
func (d *driver) poll() (last bool) {
	var list []*watch
	q := server.Request{Poll: d.id, Wait: d.TTL / 4}
	d.mu.Lock()
	d.polls++
	number := d.polls
	for w := range d.watches {
		list = append(list, w)
		q.Watches = append(q.Watches, server.Watch{Key: w.key, Version: w.version})
	}
	d.mu.Unlock()
	if len(list) == 0 {
		return false // the first watch sends the next
	}
	sent := time.Now()
	a, err := d.send(d.ctx, d.requests, "watch", q)
	if err != nil {
		pause(d.ctx, d.TTL/6) // the service might not answer for long
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, w := range list {
		if _, watched := d.watches[w]; watched && err == nil {
			w.take(a, i, q.Watches[i].Version, sent)
		}
	}
	return number == d.polls
}
