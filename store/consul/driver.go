package consul

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/internal/lifeline"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul/internal/agent"
	"github.com/go-leadership/leadership/store/consul/internal/kvwatch"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/hashicorp/consul/api"
)

// driver implements engine.Driver. The watch of an own ballot is a stream, and so is the watch of the last ballot ahead of it:
// the two have the same number. All other watches tell in any order.
//
// Its goroutines are those of the watcher, and those that clear away sessions that are left. Close waits for all of them.
type driver struct {
	config   Config
	layout   layout
	life     *adapter.Lifecycle // of the goroutines; its Calls end when Close begins
	client   *agent.Client
	watches  *kvwatch.Watcher
	due      chan struct{} // has room for one: the session must be confirmed now
	seed     maphash.Seed  // of streamOf
	lifeline lifeline.Line // nil without one

	clearing sync.WaitGroup // what clears away sessions beside the calls

	mu      sync.Mutex
	present *session          // guarded by mu, as are all below: the session that is kept; nil if there is none
	left    []*session        // that are not kept, and might still exist
	behind  map[string]behind // own ballots, by the key of the nearest ahead
}

func newDriver(config Config) (*driver, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	life := adapter.NewLifecycle("consul", config.TLS != nil, strings.Join(config.Addresses, ",")+"/"+config.Prefix)
	client, err := agent.New(life, agent.Config{
		Addresses: config.Addresses, Token: config.TokenFunc, Datacenter: config.Datacenter, Namespace: config.Namespace,
		Partition: config.Partition, TTL: config.TTL, TLS: config.TLS, Dialer: config.dialer, Client: config.Client,
		Logger: config.Logger,
	})
	if err != nil {
		life.Stop()
		return nil, err
	}
	d := &driver{
		config: config, layout: layout{config.Prefix}, life: life, client: client,
		due: make(chan struct{}, 1), seed: maphash.MakeSeed(), behind: map[string]behind{},
	}
	d.watches = kvwatch.New(client, config.Prefix+"/", stands, d.doubt)
	if d.lifeline, err = config.settings().OpenLifeline(life, "consul", config.place()); err != nil {
		life.Stop()
		return nil, err
	}
	return d, nil
}

// WatchEntry implements engine.Driver.
func (d *driver) WatchEntry(ctx context.Context, key string, tell engine.Tell) (engine.Watch, error) {
	d.mu.Lock()
	b := d.behind[key]
	d.mu.Unlock()
	options := kvwatch.Options{Once: true, While: b.key}
	if b.more {
		options.From = func(e agent.Entry) bool { return e.Flags&isFirst != 0 }
	}
	stop, err := d.watches.Watch(ctx, key, options, func(n kvwatch.News) { tell(newsOf(n, stateOf(key, n.Entry))) })
	return engine.Watch{Stop: stop, Stream: d.streamOf(cmp.Or(b.key, key))}, err
}

// newsOf returns news of a key that is in a state.
func newsOf(n kvwatch.News, st engine.State) engine.News {
	if n.Over {
		return engine.News{Over: true}
	}
	return engine.News{State: &st, AsOf: n.AsOf}
}

// stateOf returns the state of a ballot's key.
func stateOf(key string, e agent.Entry) engine.State {
	id, nonce := owner(key)
	if !stands(key, e) {
		return engine.State{Session: id}
	}
	return engine.State{
		Token: e.Create, Session: id, Nonce: nonce, Resign: e.Flags&isCalled != 0, First: e.Flags&isFirst != 0,
	}
}

// First implements engine.Driver.
func (d *driver) First(ctx context.Context, election string) (engine.State, error) {
	list, err := d.queue(ctx, election)
	if len(list) == 0 {
		return engine.State{}, err
	}
	return stateOf(list[0].Key, agent.EntryOf(list[0])), nil
}

// queue reads the ballots of an election, the first in line first.
func (d *driver) queue(ctx context.Context, election string) (api.KVPairs, error) {
	dir := d.layout.dir(election)
	pairs, err := d.client.List(ctx, dir)
	return queue(dir, pairs), err
}

// behind is an own ballot that waits for another.
type behind struct {
	key  string
	more bool // there may be others ahead
}

// streamOf returns the number of a ballot's stream.
func (d *driver) streamOf(key string) uint64 { return max(1, maphash.String(d.seed, key)) }

// WatchLeader implements engine.Driver.
func (d *driver) WatchLeader(ctx context.Context, election string, tell engine.Tell) (engine.Watch, error) {
	stop, err := d.watches.Watch(ctx, d.layout.ack(election), kvwatch.Options{}, func(n kvwatch.News) {
		st := engine.State{}
		if n.Session != "" { // without a lock it was written by a program that does not stand
			st.Leader = store.Leader{Value: n.Value, Revision: n.Modify}
		}
		tell(newsOf(n, st))
	})
	return engine.Watch{Stop: stop}, err
}

// errIdle says that the store has no session and follows no election: it asks for nothing.
var errIdle = errors.New("nothing is watched")

// Confirm implements engine.Driver. If there is a session and nothing is watched, any answer shows that the service works.
func (d *driver) Confirm(ctx context.Context) error {
	asked, err := d.watches.Confirm(ctx)
	if err != nil || asked {
		return err
	}
	d.mu.Lock()
	idle := d.present == nil
	d.mu.Unlock()
	if idle {
		return errIdle
	}
	_, err = d.client.Get(agent.Confirming(ctx), d.layout.prefix+"/") // which a candidate may read
	return err
}

// standing is what the driver knows of an entry of its own.
type standing struct {
	long     bool                        // constant: its value has a key of its own
	nearest  string                      // guarded by the driver's mu: the key under which driver.behind may have it
	revision atomic.Uint64               // of the last acknowledgement that is known to have been made
	made     atomic.Pointer[agent.Entry] // the ballot as it was made; nil once it was to be marked as first
}

func standingOf(e engine.Entry) *standing { return e.Private.(*standing) }

// Ahead implements engine.Driver. A list has the locks, which names alone have not: a ballot whose lock was released does
// not stand (TestReleasedBallotIsNotFirst).
func (d *driver) Ahead(ctx context.Context, e engine.Entry) (engine.Place, error) {
	list, err := d.queue(ctx, e.Election)
	if err != nil {
		return engine.Place{}, err
	}
	at := slices.IndexFunc(list, func(p *api.KVPair) bool { return p.Key == e.Key })
	if at < 0 { // gone, or not to be read any more, which a list does not tell
		return engine.Place{}, d.notListed(ctx, e.Key)
	}
	return d.place(e.Key, standingOf(e), list[:at]), nil
}

// longQueue is the length of a queue from which on a read of the whole queue takes longer than the read of the own ballot
// that it would save (BenchmarkHerd).
const longQueue = 100

// place returns the place of a ballot behind others, the nearest last. What is known of a ballot behind one of its own session
// says nothing: the two might go together.
func (d *driver) place(key string, st *standing, ahead api.KVPairs) engine.Place {
	n := len(ahead)
	if n == 0 {
		return engine.Place{}
	}
	nearest := ahead[n-1].Key
	id, _ := owner(nearest)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.behind, st.nearest)
	if n < longQueue && (d.present == nil || d.present.id != id) {
		d.behind[nearest], st.nearest = behind{key, n > 1}, nearest
	}
	return engine.Place{Nearest: nearest, More: n > 1}
}

// notListed returns why a list has not shown a ballot: ErrGone if the ballot does not stand, and otherwise an error that may
// pass.
func (d *driver) notListed(ctx context.Context, key string) error {
	s, err := d.client.Get(ctx, key)
	switch {
	case err != nil:
		return err
	case !stands(key, s.Entry):
		return engine.ErrGone
	}
	return engine.Answered(fmt.Errorf("%w: the ballot stands", store.ErrUnavailable))
}

// Ballots implements engine.Driver. To a client without a token, Consul lists only the keys that all may read, and does not
// say so; it denies the read of a single key. So an empty list is checked by such a read.
func (d *driver) Ballots(ctx context.Context, election string) ([]store.Standing, error) {
	queue, err := d.queue(ctx, election)
	if err == nil && len(queue) == 0 {
		_, err = d.client.Get(ctx, d.layout.dir(election))
	}
	if err != nil {
		return nil, err
	}
	list := make([]store.Standing, 0, len(queue))
	for _, p := range queue {
		value := string(p.Value)
		if p.Flags&isLong != 0 {
			s, err := d.client.Get(ctx, d.layout.value(election, nameOf(p.Key)))
			if err != nil {
				return nil, err
			}
			if !s.Exists { // it has gone meanwhile, and the ballot with it
				continue
			}
			value = s.Value
		}
		list = append(list, store.Standing{Value: value, Token: p.CreateIndex, Asked: p.Flags&isCalled != 0})
	}
	return list, nil
}

// RequestResignation implements engine.Driver. The mark is a flag of the ballot's key, whose lock stays as it is.
func (d *driver) RequestResignation(ctx context.Context, election string, token uint64) error {
	list, err := d.queue(ctx, election)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(p *api.KVPair) bool { return p.CreateIndex == token })
	if i < 0 || list[i].Flags&isCalled != 0 {
		return nil
	}
	p := list[i]
	_, err = d.client.Commit(ctx,
		&api.KVTxnOp{Verb: api.KVCheckIndex, Key: p.Key, Index: p.ModifyIndex},
		&api.KVTxnOp{Verb: api.KVSet, Key: p.Key, Value: p.Value, Flags: p.Flags | isCalled},
	)
	return err // if it has changed meanwhile, it is read again
}

// Clear implements engine.Driver. Without a name it deletes all keys that begin with <prefix>/. Locked keys can be
// deleted: locks are advisory.
func (d *driver) Clear(ctx context.Context, election string) error {
	ops := []*api.KVTxnOp{{Verb: api.KVDeleteTree, Key: d.config.Prefix + "/"}}
	if election != "" {
		key := d.layout.ack(election)
		ops = []*api.KVTxnOp{{Verb: api.KVDelete, Key: key}, {Verb: api.KVDeleteTree, Key: key + "/_"}}
	}
	_, err := d.client.Commit(ctx, ops...)
	return err
}

// Close implements engine.Driver. The sessions that are left are tried to be cleared away once more.
func (d *driver) Close() error {
	d.life.Close()
	d.clearLeft(true)
	d.clearing.Wait()
	d.life.Stop()
	d.life.Wait()
	d.client.Close()
	return nil
}
