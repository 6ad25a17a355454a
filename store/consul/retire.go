package consul

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul/internal/agent"
)

// A session that is left is not kept, and the service might still have it. Its ballots block all others, and servers that
// return after an outage count the time of each session anew. So Open destroys the sessions that are left before it creates
// another one. If that fails, it is tried again with each renewal and by Close, up to mostTries. In an outage nothing is
// tried, since Open waits until the servers are ready. What Open tries does not count: servers that know their leader might
// refuse all writes for some time, and Open is called often.

const (
	// mostTries is how often a session is tried to be destroyed by servers that are ready: more than two TTLs of renewals.
	mostTries = 10
	// clearLimit is how long one try may take.
	clearLimit = 2 * time.Second
)

// drop notes that a session is not kept any more. The next one might have been opened already. left says that the service might
// still have the session.
func (d *driver) drop(s *session, left bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if left {
		d.left = append(d.left, s)
	}
	if d.present == s {
		d.present = nil
	}
}

// clearLeft destroys the sessions that are left. kept says that a session is kept, so that the attempt counts.
func (d *driver) clearLeft(kept bool) {
	d.mu.Lock()
	list := d.left
	d.left = nil
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(d.life.Background, clearLimit)
	defer cancel()
	var tries sync.WaitGroup
	for _, s := range list {
		tries.Go(func() {
			if kept {
				s.tries++
			}
			if d.clearAway(ctx, s) != nil && s.tries < mostTries {
				d.drop(s, true)
			}
		})
	}
	tries.Wait()
}

// clearAway destroys a session and removes its check, and tries the second even if the first fails. A session whose id was
// not told ends with its check (TestLateCreationFails). A session without id and check holds no keys, and expires.
func (d *driver) clearAway(ctx context.Context, sess *session) error {
	return errors.Join(d.destroy(ctx, sess.id), d.deregister(ctx, sess.check))
}

// destroy destroys a session, if there is one. A server that begins to lead answers that it has, while it does not know the
// session yet, since its log is still being applied. So a consistent read, which waits for that, has to find no session.
func (d *driver) destroy(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	for range 2 {
		var done bool
		_, err := d.client.Raw().Write("/v1/session/destroy/"+id, nil, &done, d.client.WriteOptions(ctx))
		if err == nil && !done {
			err = agent.Odd("a session was not destroyed")
		}
		if err != nil {
			return d.client.Explain(err)
		}
		info, meta, err := d.client.Session().Info(id, d.client.Consistent(ctx))
		if err = agent.FromAgent(meta, err); err != nil || info == nil {
			return d.client.Explain(err)
		}
	}
	return errStands
}

var errStands = fmt.Errorf("%w: the session stands after it was destroyed", store.ErrUnavailable)
