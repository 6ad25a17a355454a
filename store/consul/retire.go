package consul

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul/internal/agent"
)

// retired are the sessions of this store that are not kept any more and might still exist at the service: those that were
// given up, and those whose creation was not answered (TestRegistrationWithoutAnAnswer). Their
// ballots block all others, and servers that return after an outage count the time of each session anew. So one goroutine
// destroys them one by one, for as long as the store is open. When the store is closed it tries each once more.
type retired struct {
	mu      sync.Mutex
	list    []*dead // guarded by mu, as is running
	running bool
	wake    chan struct{} // has room for one: there is a new one
}

// dead is a session that is not kept.
type dead struct {
	*session
	gone    chan struct{} // closed when it has left the list
	refused store.Instant // since when each request was refused by a service that works; zero if the last one was not
}

// retire destroys a session in the background. The channel is closed when that has been confirmed, or given up.
func (d *driver) retire(sess *session) <-chan struct{} {
	d.mu.Lock()
	if d.present == sess {
		d.present = nil
	}
	d.mu.Unlock()
	r := &d.retired
	r.mu.Lock()
	defer r.mu.Unlock()
	one := &dead{session: sess, gone: make(chan struct{})}
	r.list = append([]*dead{one}, r.list...) // the latest first: it might have been the leader's
	if !r.running {
		r.running = true
		d.retiring.Go(d.clearAwayAll)
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return one.gone
}

// clearAwayAll clears the sessions away. After an error it goes on with the next one, up to a second after the last
// began; with a new one at once.
func (d *driver) clearAwayAll() {
	r, pause := &d.retired, time.Duration(0)
	for {
		last := d.life.Calls.Err() != nil
		r.mu.Lock()
		if r.running = len(r.list) > 0; !r.running {
			r.mu.Unlock()
			return
		}
		one := r.list[0]
		r.list = r.list[1:]
		r.mu.Unlock()
		began := time.Now()
		ctx, cancel := context.WithTimeout(d.life.Background, d.clearLimit())
		err := d.clearAway(ctx, one.session)
		cancel()
		if err == nil || last || d.hopeless(one, err) {
			close(one.gone)
			pause = 0
			continue
		}
		r.mu.Lock()
		r.list = append(r.list, one)
		r.mu.Unlock()
		pause = min(max(50*time.Millisecond, 2*pause), time.Second)
		select {
		case <-time.After(pause - time.Since(began)):
		case <-r.wake:
		case <-d.life.Calls.Done():
		}
	}
}

// clearLimit is how long a session is tried to be destroyed by one request, so that one that hangs in an outage does not
// delay the next for long.
func (d *driver) clearLimit() time.Duration {
	return min(max(2*time.Second, d.config.TTL/4), agent.RequestLimit)
}

// hopeless reports whether the service has not destroyed a session for so long that the session has expired, though the
// service works: it denies that, answers what Consul never would, or renews the present session meanwhile.
func (d *driver) hopeless(one *dead, err error) bool {
	d.mu.Lock()
	works := d.present != nil
	d.mu.Unlock()
	if !works && (errors.Is(err, store.ErrUnavailable) || !errors.Is(err, store.ErrDenied) && !agent.IsOdd(err)) {
		one.refused = store.Instant{}
		return false
	}
	if one.refused == (store.Instant{}) {
		one.refused = store.Now()
	}
	return one.refused.Since(time.Now()) >= 3*max(d.config.TTL, leastSessionTTL)
}

// clearAway destroys a session and removes its check, and tries each even if the other fails. A session whose id was not
// told ends with its check (TestLateCreationFails). One without a check holds no keys, and expires.
func (d *driver) clearAway(ctx context.Context, sess *session) error {
	return errors.Join(d.destroy(ctx, sess.id), d.deregister(ctx, sess.check))
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
