package consul

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul/internal/agent"
)

// Sessions that are not kept and might be at the service: those given up, those whose creation was not answered, and
// those being created. They are cleared away in the background, and by Close.

// discard adds a session to those to clear away.
func (d *driver) discard(sess *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.discarded[sess] = struct{}{}
	if d.present == sess.id {
		d.present = ""
	}
}

// retire clears a discarded session away, for as long as there can be one.
func (d *driver) retire(sess *session) {
	began, limit := store.Now(), 3*max(d.config.TTL, leastSessionTTL)
	for began.Since(time.Now()) < limit && d.life.Background.Err() == nil {
		ctx, cancel := context.WithTimeout(d.life.Background, agent.RequestLimit)
		err := d.clearAway(ctx, sess)
		cancel()
		if err == nil {
			break
		}
		if !adapter.Uncertain(err) { // the token may be replaced yet
			adapter.PauseFor(d.life.Background, time.Second)
		}
		adapter.Pause(d.life.Background)
	}
	if d.life.Background.Err() == nil {
		d.mu.Lock()
		delete(d.discarded, sess)
		d.mu.Unlock()
	}
	close(sess.gone) // destroyed, or expired
}

// clearAway destroys a session and removes its check. A session whose id was never told is found by its name.
func (d *driver) clearAway(ctx context.Context, sess *session) error {
	d.mu.Lock()
	var ids []string
	if sess.id != "" {
		ids = []string{sess.id}
	}
	tried := sess.tried
	d.mu.Unlock()
	if ids == nil && tried {
		list, meta, err := d.client.Session().List(d.client.Consistent(ctx))
		if err = agent.FromAgent(meta, err); err != nil {
			return errors.Join(d.client.Explain(ctx, err), d.deregister(ctx, sess.check))
		}
		for _, other := range list {
			if other.Name == sess.name {
				ids = append(ids, other.ID)
			}
		}
	}
	var errs []error
	for _, id := range ids {
		errs = append(errs, d.destroy(ctx, id))
	}
	return errors.Join(append(errs, d.deregister(ctx, sess.check))...)
}

// destroy destroys a session.
func (d *driver) destroy(ctx context.Context, id string) error {
	var done bool
	_, err := d.client.Raw().Write("/v1/session/destroy/"+id, nil, &done, d.client.WriteOptions(ctx))
	if err == nil && !done {
		err = agent.Odd("a session was not destroyed")
	}
	return d.client.Explain(ctx, err)
}

// clearDiscarded clears away what is left when the store is closed, once.
func (d *driver) clearDiscarded(ctx context.Context) {
	d.mu.Lock()
	list := slices.Collect(maps.Keys(d.discarded))
	d.mu.Unlock()
	var left sync.WaitGroup
	turns := make(chan struct{}, agent.Burst)
	for _, sess := range list {
		turns <- struct{}{}
		left.Go(func() {
			defer func() { <-turns }()
			_ = d.clearAway(ctx, sess)
		})
	}
	left.Wait()
}
