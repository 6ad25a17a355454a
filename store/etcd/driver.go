package etcd

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/internal/lifeline"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// driver implements engine.Driver on a cluster. All its watches share one stream.
//
// Its goroutines are connect, until there is a client, and watch, which keeps the stream of watches. Close waits for both.
type driver struct {
	config   Config
	layout   layout
	life     *adapter.Lifecycle // of the goroutines; its Calls never end
	lifeline lifeline.Line      // nil without one

	endpoints int         // constant: how many there are
	answered  atomic.Bool // the cluster has answered a request
	watches   watches

	mu           sync.Mutex
	changed      chan struct{}    // guarded by mu, as are all below: closed and replaced when there is a client, or will be none
	client       *clientv3.Client // set once: read without mu after connect has set it
	noClient     error            // why the last attempt to make the client has failed; nil before it has
	refusedSince time.Time        // since when passwords have been refused; zero once one was accepted
	revisions    revisions
	dialled      map[string]time.Time // when an endpoint was reached last
}

// begin begins to connect and to watch.
func (d *driver) begin() {
	if d.config.Client == nil {
		d.life.Go(d.connect)
	}
	d.life.Go(d.watch)
}

// WatchEntry implements engine.Driver.
func (d *driver) WatchEntry(ctx context.Context, key string, tell engine.Tell) (engine.Watch, error) {
	return d.set(ctx, entryWatch(key, tell))
}

// WatchLeader implements engine.Driver.
func (d *driver) WatchLeader(ctx context.Context, election string, tell engine.Tell) (engine.Watch, error) {
	return d.set(ctx, &watch{key: d.layout.ack(election), tell: tell, state: leaderState, dated: true})
}

// set sets a watch, reads its key, and tells what there is.
func (d *driver) set(ctx context.Context, w *watch) (_ engine.Watch, err error) {
	ws := &d.watches
	ws.set(w)
	defer func() {
		if err != nil {
			ws.stop(w)
		}
	}()
	if err := d.ready(ctx, w); err != nil {
		return engine.Watch{}, err
	}
	sent := time.Now()
	found, revision, err := d.readKey(ctx, w.key)
	if err != nil {
		return engine.Watch{}, err
	}
	if err := ws.show(w, found, revision, sent); err != nil {
		return engine.Watch{}, err
	}
	return engine.Watch{Stream: w.stream, Stop: func() { ws.stop(w) }}, nil
}

// readKey reads a key, which is nil if it does not exist.
func (d *driver) readKey(ctx context.Context, key string) (*mvccpb.KeyValue, int64, error) {
	found, revision, err := d.read(ctx, nil, clientv3.OpGet(key))
	if err != nil {
		return nil, 0, err
	}
	return first(found[0]), revision, nil
}

// Ahead implements engine.Driver. It first asks one member, which answers without the others: what is ahead only shrinks, so
// any state will do in which the nearest has gone. On three members a ballot that had several ahead then leads a tenth sooner
// (TestPlaceIsReadFromOneMemberFirst).
func (d *driver) Ahead(ctx context.Context, e engine.Entry) (engine.Place, error) {
	found, _, err := d.read(ctx, stands(e), d.nearest(e.Election, earlier(e), clientv3.WithSerializable()))
	if err != nil || found == nil { // a majority is not behind, and knows whether the entry stands
		found, _, err = d.read(ctx, stands(e), d.nearest(e.Election, earlier(e)))
	}
	switch {
	case err != nil:
		return engine.Place{}, err
	case found == nil:
		return engine.Place{}, engine.ErrGone
	}
	return d.place(ctx, e, found[0])
}

// nearest reads the key of an election's queue that was created last.
func (d *driver) nearest(election string, opts ...clientv3.OpOption) clientv3.Op {
	return clientv3.OpGet(d.layout.dir(election), append(opts, clientv3.WithPrefix(), clientv3.WithLimit(1),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend))...)
}

// earlier are the keys that were created before an entry.
func earlier(e engine.Entry) clientv3.OpOption { return clientv3.WithMaxCreateRev(int64(e.Token) - 1) }

// place returns what is ahead of an entry: the key that nearest has found. If that is no ballot, place reads all keys.
func (d *driver) place(ctx context.Context, e engine.Entry, found *pb.RangeResponse) (place engine.Place, err error) {
	ahead, more := found.Kvs, found.More
	if len(ahead) > 0 && !isBallot(d.layout.dir(e.Election), ahead[0]) {
		ahead, err = d.ballots(ctx, e.Election, 0, earlier(e))
		more = len(ahead) > 1
	}
	if n := len(ahead); n > 0 {
		place = engine.Place{Nearest: entryOf(ahead[n-1]), More: more}
	}
	return place, err
}

// First implements engine.Driver.
func (d *driver) First(ctx context.Context, election string) (engine.State, error) {
	list, err := d.ballots(ctx, election, 1)
	if err != nil || len(list) == 0 {
		return engine.State{}, err
	}
	return entryState(entryOf(list[0]), list[0]), nil
}

// ballots reads the first ballots of an election, in the order of their creation; 0 is all. If there are keys among them
// that are no ballots, ballots reads all keys.
func (d *driver) ballots(ctx context.Context, election string, limit int64, opts ...clientv3.OpOption) ([]*mvccpb.KeyValue, error) {
	dir := d.layout.dir(election)
	found, _, err := d.read(ctx, nil, clientv3.OpGet(dir, append(slices.Clone(opts), clientv3.WithPrefix(), clientv3.WithLimit(limit),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))...))
	if err != nil {
		return nil, err
	}
	keys := len(found[0].Kvs)
	list := slices.DeleteFunc(found[0].Kvs, func(kv *mvccpb.KeyValue) bool { return !isBallot(dir, kv) })
	if len(list) < keys && found[0].More {
		return d.ballots(ctx, election, 0, opts...)
	}
	return list, nil
}

// Confirm implements engine.Driver. A read returns the cluster's revision. Then the stream of watches is asked to say when
// all events up to that revision have been sent.
func (d *driver) Confirm(ctx context.Context) error {
	sent := time.Now()
	revision, err := d.now(ctx)
	if err != nil {
		return err
	}
	d.watches.progress(revision, sent)
	return nil
}

// Ballots implements engine.Driver. It also shows the candidates of concurrency.Election that keep ballots of this queue from
// being cast (peers.go).
func (d *driver) Ballots(ctx context.Context, election string) (list []store.Standing, err error) {
	kvs, err := d.ballots(ctx, election, 0)
	for _, name := range []string{d.layout.ack(election), twin(d.layout.ack(election))} {
		if err == nil {
			var beside []*mvccpb.KeyValue
			beside, err = d.readPeers(ctx, name)
			kvs = append(kvs, beside...)
		}
	}
	slices.SortFunc(kvs, func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.CreateRevision, b.CreateRevision) })
	for _, kv := range kvs {
		foreign := isForeign(kv)
		list = append(list, store.Standing{
			Value: string(kv.Value), Token: uint64(kv.CreateRevision), Asked: !foreign && kv.Version > 1, Foreign: foreign,
		})
	}
	return list, err
}

// Clear implements engine.Driver. Without a name it deletes all keys that begin with <prefix>/.
func (d *driver) Clear(ctx context.Context, election string) error {
	ops := []clientv3.Op{clientv3.OpDelete(d.config.Prefix+"/", clientv3.WithPrefix())}
	if election != "" {
		ops = []clientv3.Op{
			clientv3.OpDelete(d.layout.ack(election)),
			clientv3.OpDelete(d.layout.dir(election), clientv3.WithPrefix()),
		}
	}
	_, err := d.change(ctx, nil, ops...)
	return err
}

// Close implements engine.Driver.
func (d *driver) Close() error {
	d.life.Stop()
	d.life.Wait()
	if d.config.Client == nil && d.client != nil {
		_ = d.client.Close() // says only that its context, which is ours, has ended
	}
	return nil
}
