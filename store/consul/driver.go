package consul

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/hashicorp/consul/api"
)

// driver implements engine.Driver. Its watches tell in any order: each key has a blocking query of its own, or is looked
// at by a transaction.
//
// Its goroutines are one for each watch with a query of its own, overlook while there are watches without, the session's
// watch, up to four confirmations of the session, retire for each session that is over, sweepRevived, one for each wait
// for the seat, and each request under way. Close waits for all of them.
type driver struct {
	config  Config
	layout  layout
	client  *api.Client
	dialer  *dialer       // nil with a client of the caller's, as are lines
	lines   *lines        // constant
	life    *adapter.Life // of the goroutines; its Calls are not used
	opening chan struct{} // has room for the one who opens a session
	due     chan struct{} // has room for one: the session must be confirmed now
	watches watches
	worked  atomic.Bool // a request has been answered as it should

	found    func(session, election, nonce string) // set before the first call
	sweeping atomic.Bool                           // sweepRevived is under way

	mu        sync.Mutex
	present   string                // guarded by mu, as are all below: the id of the session that is kept
	discarded map[*session]struct{} // not kept, and perhaps at the service
	odd       time.Time             // since when no session could be opened for odd answers; zero if it could
}

// OnFound implements engine.Finder.
func (d *driver) OnFound(found func(session, election, nonce string)) { d.found = found }

// isSession reports whether the session with an id is the one that is kept.
func (d *driver) isSession(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return id != "" && d.present == id
}

// Entry implements engine.Driver.
func (d *driver) Entry(ctx context.Context, key string, tell engine.Tell) (engine.Watch, error) {
	if n, ok := obstacleOf(key); ok {
		return d.waitForSeat(n, tell), nil
	}
	return d.subscribe(ctx, key, false, tell)
}

// Leader implements engine.Driver.
func (d *driver) Leader(ctx context.Context, election string, tell engine.Tell) (engine.Watch, error) {
	return certain(ctx, func(ctx context.Context) (engine.Watch, error) {
		return d.subscribe(ctx, d.layout.ack(election), true, tell)
	})
}

// standing is what the driver knows of an entry that it has made. Ahead and Acknowledge are called one at a time.
type standing struct {
	long  bool     // constant: its value has a key of its own
	ahead []string // constant: the keys of the ballots that were ahead when it was made, the nearest last

	mu       sync.Mutex
	seated   bool      // guarded by mu, as are all below: it may have the seat
	taken    time.Time // since when another session has held the seat
	revision uint64    // of the last acknowledgement that is known to have been made
}

func standingOf(e engine.Entry) *standing { return e.Private.(*standing) }

// before returns the sessions of the ballots that were ahead.
func (s *standing) before(id string) bool {
	return slices.ContainsFunc(s.ahead, func(key string) bool { o, _ := owner(key); return o == id })
}

// Ahead implements engine.Driver. The names that are left, of those that were ahead, tell which is the nearest.
func (d *driver) Ahead(ctx context.Context, e engine.Entry) (engine.Place, error) {
	if _, ok := obstacleOf(e.Place.Nearest); ok {
		return d.takeSeat(ctx, e)
	}
	names, err := request(ctx, d, func(ctx context.Context) ([]string, error) {
		names, meta, err := d.client.KV().Keys(d.layout.dir(e.Election), "", d.consistent(ctx))
		return names, agents(meta, err)
	})
	if err != nil {
		return engine.Place{}, err
	}
	if !slices.Contains(names, e.Key) { // gone, or not to be read any more, which a list does not tell
		return engine.Place{}, d.stands(ctx, e.Key)
	}
	left := map[string]bool{}
	for _, key := range names {
		left[key] = true
	}
	ahead := standingOf(e).ahead
	if i := slices.Index(ahead, e.Place.Nearest); i >= 0 { // it has gone, though its key may be there
		ahead = ahead[:i]
	}
	ahead = slices.DeleteFunc(slices.Clone(ahead), func(key string) bool { return !left[key] })
	if len(ahead) == 0 && d.config.LockDelay > 0 {
		return d.takeSeat(ctx, e)
	}
	return d.place(ahead), nil
}

// place returns the place of an entry behind others, the nearest last.
func (d *driver) place(ahead []string) engine.Place {
	seat := d.config.LockDelay > 0
	switch n := len(ahead); {
	case n > 0:
		return engine.Place{Nearest: ahead[n-1], More: n > 1 || seat}
	case seat:
		return engine.Place{Nearest: obstacle(0), More: true}
	}
	return engine.Place{}
}

// stands returns ErrGone if a ballot does not stand, and another error if it does, against what was read before.
func (d *driver) stands(ctx context.Context, key string) error {
	s, err := d.get(ctx, key)
	switch {
	case err != nil:
		return err
	case !stands(key, s.entry):
		return engine.ErrGone
	}
	return fmt.Errorf("%w: the ballot stands", store.ErrUnavailable)
}

// Ballots implements engine.Driver. Consul leaves keys that the token may not read out of a list, without an error. It
// denies the read of one key, so an empty list is checked by such a read.
func (d *driver) Ballots(ctx context.Context, election string) ([]store.Standing, error) {
	dir := d.layout.dir(election)
	pairs, err := certain(ctx, func(ctx context.Context) (api.KVPairs, error) { return d.list(ctx, dir) })
	if err == nil && len(pairs) == 0 {
		_, err = certain(ctx, func(ctx context.Context) (seed, error) { return d.get(ctx, dir) })
	}
	if err != nil {
		return nil, err
	}
	queue := queue(dir, pairs)
	slices.SortFunc(queue, func(p, q *api.KVPair) int { return cmp.Compare(p.CreateIndex, q.CreateIndex) })
	list := make([]store.Standing, 0, len(queue))
	for _, p := range queue {
		value := string(p.Value)
		if p.Flags&isLong != 0 {
			s, err := certain(ctx, func(ctx context.Context) (seed, error) {
				return d.get(ctx, d.layout.value(election, nameOf(p.Key)))
			})
			if err != nil {
				return nil, err
			}
			if !s.exists { // it has gone meanwhile, and the ballot with it
				continue
			}
			value = s.value
		}
		list = append(list, store.Standing{Value: value, Token: p.CreateIndex})
	}
	return list, nil
}

// list reads all keys below dir.
func (d *driver) list(ctx context.Context, dir string) (api.KVPairs, error) {
	return request(ctx, d, func(ctx context.Context) (api.KVPairs, error) {
		pairs, meta, err := d.client.KV().List(dir, d.consistent(ctx))
		return pairs, agents(meta, err)
	})
}

// Clear implements engine.Driver. Without a name it deletes all keys that begin with <prefix>/. Locked keys can be
// deleted: locks are advisory.
func (d *driver) Clear(ctx context.Context, election string) error {
	tree := d.config.Prefix + "/"
	if election != "" {
		tree = d.layout.ack(election) + "/_"
	}
	_, err := request(ctx, d, func(ctx context.Context) (struct{}, error) {
		if election != "" {
			if _, err := d.client.KV().Delete(d.layout.ack(election), d.writeOptions(ctx)); err != nil {
				return struct{}{}, err
			}
		}
		_, err := d.client.KV().DeleteTree(tree, d.writeOptions(ctx))
		return struct{}{}, err
	})
	return err
}

// closeLimit bounds what Close waits for the service.
const closeLimit = 2 * time.Second

// Close implements engine.Driver. What is being opened is waited for, so that nothing of it is left.
func (d *driver) Close() error {
	ctx, cancel := context.WithTimeout(d.life.Background, closeLimit)
	defer cancel()
	opened := time.NewTimer(closeLimit / 2)
	defer opened.Stop()
	select {
	case d.opening <- struct{}{}:
	case <-opened.C:
	}
	d.clearDiscarded(ctx)
	d.life.Stop()
	d.life.Wait()
	d.watches.close()
	if d.lines != nil {
		d.dialer.closeAll()
		d.lines.close()
	}
	return nil
}
