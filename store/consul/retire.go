package consul

import (
	"context"
	"errors"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul/internal/agent"
)

// retire removes, in the background, what there might be of a session that is not kept: one that was given up, or one
// whose creation was not answered (TestRegistrationWithoutAnAnswer, TestSessionThatComesLate). It tries until that has
// worked, or the session has expired. When the store is closed it tries once more. The channel is closed at the end.
func (d *driver) retire(sess *session) <-chan struct{} {
	d.mu.Lock()
	if d.present == sess.id {
		d.present = ""
	}
	d.mu.Unlock()
	gone := make(chan struct{})
	d.retiring.Go(func() {
		defer close(gone)
		began, limit := store.Now(), 3*max(d.config.TTL, leastSessionTTL)
		for pause := 50 * time.Millisecond; began.Since(time.Now()) < limit; pause = min(2*pause, time.Second) {
			last := d.life.Calls.Err() != nil
			ctx, cancel := context.WithTimeout(d.life.Background, agent.RequestLimit)
			err := d.clearAway(ctx, sess)
			cancel()
			if err == nil || last {
				return
			}
			adapter.PauseFor(d.life.Calls, pause)
		}
	})
	return gone
}

// clearAway destroys a session and removes its check, and tries each even if the other fails. A session whose id was never
// told is found by its name. If the request to create it is carried out after that, it fails, since its check is gone
// (TestLateCreationFails). One without a check is then left: it holds no keys, and expires.
func (d *driver) clearAway(ctx context.Context, sess *session) error {
	if !sess.unsure {
		return errors.Join(d.destroy(ctx, sess.id), d.deregister(ctx, sess.check))
	}
	errs := []error{d.deregister(ctx, sess.check)}
	list, meta, err := d.client.Session().List(d.client.Consistent(ctx))
	if err = agent.FromAgent(meta, err); err != nil {
		return errors.Join(append(errs, d.client.Explain(err))...)
	}
	for _, other := range list {
		if other.Name == sess.name {
			errs = append(errs, d.destroy(ctx, other.ID))
		}
	}
	return errors.Join(errs...)
}

// destroy destroys a session, if there is one.
func (d *driver) destroy(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	var done bool
	_, err := d.client.Raw().Write("/v1/session/destroy/"+id, nil, &done, d.client.WriteOptions(ctx))
	if err == nil && !done {
		err = agent.Odd("a session was not destroyed")
	}
	return d.client.Explain(err)
}
