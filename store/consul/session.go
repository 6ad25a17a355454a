package consul

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul/internal/agent"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/hashicorp/consul/api"
)

// session implements engine.Session.
type session struct {
	driver *driver
	name   string
	id     string // written by create; empty if the service has not told it
	check  string // written by create: the id of the service and of its check that the session is bound to; empty if there is none

	ended atomic.Bool // the service has said that there is no such session
	// letGo clears the session away in the background, once. The channel is closed when nothing of it is left at the
	// service, or retire has given up.
	letGo func() (gone <-chan struct{})

	mu    sync.Mutex
	marks [engine.Slots]uint64 // guarded by mu: the index of the mark of each slot, as far as is known; 0: there is none

	// Of renewals. Written by the one who opens the session, then used by Keep alone.
	sent    store.Instant // when the last one that counted was sent
	renewed time.Time     // when the session itself was last renewed, as against its check
	// connection counts how often the agent did not confirm the session, and how often the service's index might have gone
	// back, as it does by a restore: what was told before might not be so any more.
	connection atomic.Uint64
	unknown    bool // the last pass was answered as if there were no check
	denied     bool // the last renewal was denied, and the log has it
}

// ID implements engine.Session.
func (s *session) ID() string { return s.id }

// over is called when the service says that there is no such session.
func (s *session) over() error {
	s.ended.Store(true)
	return engine.ErrOver
}

// Open implements engine.Driver. When ctx ends, as it does when the store is closed, creating the session goes on for a
// moment: if the answer comes, the session is destroyed by its id (TestCloseWhileTheSessionIsCreated).
func (d *driver) Open(ctx context.Context) (engine.Session, engine.Proof, error) {
	if ctx.Err() != nil {
		return nil, engine.Proof{}, fmt.Errorf("%w: no session: %w", store.ErrUnavailable, context.Cause(ctx))
	}
	work, cancel := context.WithTimeout(d.life.Background, max(agent.RequestLimit, 2*d.config.TTL))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(closeLimit/2, cancel) })()
	if d.failed { // by one request, since an outage might last
		if err := d.client.Ready(work); err != nil {
			return nil, engine.Proof{}, d.tell(err)
		}
	}
	s, err := d.newSession(work)
	if d.failed = err != nil; err == nil && ctx.Err() != nil {
		s.letGo()
		err = fmt.Errorf("%w: no session: %w", store.ErrUnavailable, context.Cause(ctx))
	}
	if err != nil {
		return nil, engine.Proof{}, d.tell(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.behind) // what is left of another session
	d.present, d.odd = s, time.Time{}
	return s, s.proof(s.sent), nil
}

func (s *session) proof(sent store.Instant) engine.Proof {
	return engine.Proof{Sent: sent, Valid: s.driver.config.TTL - s.driver.config.Grace, Connection: 1 + s.connection.Load()}
}

// refusalLimit is for how long a session is tried to be opened though that is refused, be it not by Consul, or for an
// outage. Then the caller is told.
const refusalLimit = time.Second

// tell marks an error of Open that the engine's callers are to be told of: it won't be cured soon.
func (d *driver) tell(err error) error {
	if errors.Is(err, agent.ErrMismatch) || errors.Is(err, store.ErrDenied) {
		return engine.FailFast(err)
	}
	switch {
	case !agent.IsOdd(err) && !errors.Is(err, agent.ErrAway) && !errors.Is(err, agent.ErrNoPath):
		d.odd = time.Time{}
	case d.odd.IsZero():
		d.odd = time.Now()
	case time.Since(d.odd) > refusalLimit:
		d.odd = time.Time{}
		return engine.FailFast(err)
	}
	return err
}

// newSession creates a session. Creating it starts its timer at the servers, and registering the check that of the
// agent: the lease begins with the session.
func (d *driver) newSession(ctx context.Context) (*session, error) {
	d.client.Warm(ctx)
	sess := &session{driver: d, name: "leadership-" + newName(), sent: store.Now(), renewed: time.Now()}
	sess.letGo = sync.OnceValue(func() <-chan struct{} { return d.retire(sess) })
	if d.config.checked() {
		sess.check = sess.name
	}
	err := d.create(ctx, sess)
	lease := d.config.TTL - d.config.Grace
	if err == nil && sess.sent.Since(time.Now()) >= lease {
		err = fmt.Errorf("%w: creating the session took longer than its lease of %v", store.ErrUnavailable, lease)
	}
	if err != nil {
		sess.letGo()
		return nil, err
	}
	return sess, nil
}

// create creates the session at the service, with its check.
func (d *driver) create(ctx context.Context, sess *session) error {
	// The library's own call leaves out an empty list and a delay of zero, which then are given defaults.
	settings := map[string]any{
		"Name": sess.name, "TTL": max(d.config.TTL, leastSessionTTL).String(), "Behavior": api.SessionBehaviorDelete,
		"LockDelay": "0s", "NodeChecks": []string{},
	}
	if sess.check != "" {
		if err := d.register(ctx, sess.check); err != nil {
			if err = d.client.Explain(err); !errors.Is(err, store.ErrUnknownOutcome) {
				sess.check = "" // there is none
			}
			if errors.Is(err, store.ErrDenied) { // by the agent alone, which might go on after its servers know better
				err = fmt.Errorf("%w: %w", store.ErrUnavailable, err)
			}
			return fmt.Errorf("register the session's check: %w", err)
		}
		settings["ServiceChecks"] = []api.ServiceCheck{{ID: sess.check, Namespace: d.config.Namespace}}
	}
	var created struct{ ID string }
	_, err := d.client.Raw().Write("/v1/session/create", settings, &created, d.client.WriteOptions(ctx))
	if err == nil && created.ID == "" {
		err = agent.Odd("a new session has no ID")
	}
	if err = d.client.Explain(err); err != nil {
		if strings.Contains(err.Error(), "Missing node registration") {
			d.registerNode(ctx, sess.name)
		}
		return fmt.Errorf("create a session: %w", err)
	}
	sess.id = created.ID
	return nil
}

// registerNode makes the agent register its node, which an operator has deregistered: any change of its services does. The
// agent itself does that about once a minute. The token might lack the permission.
func (d *driver) registerNode(ctx context.Context, id string) {
	if d.register(ctx, id) == nil {
		_ = d.deregister(ctx, id)
	}
}

// service is the name of the service that sessions with a check are registered under. No client connects to it.
const service = "leadership"

// register registers a service with a check that passes until the TTL has gone by without another pass. The agent has
// told the servers when it answers, as a rule; otherwise the session can't be created, and Campaign tries again.
func (d *driver) register(ctx context.Context, id string) error {
	err := d.client.Agent().ServiceRegisterOpts(&api.AgentServiceRegistration{
		ID: id, Name: service, Namespace: d.config.Namespace, Partition: d.config.Partition,
		Check: &api.AgentServiceCheck{
			CheckID: id, Name: "leadership session", TTL: d.config.TTL.String(), Status: api.HealthPassing,
			DeregisterCriticalServiceAfter: "1m", // the least that an agent takes
		},
	}, api.ServiceRegisterOpts{}.WithContext(ctx))
	return err
}

// deregister removes a session's service, if there is one.
func (d *driver) deregister(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	err := d.client.Agent().ServiceDeregisterOpts(id, d.client.ReadOptions(ctx))
	if agent.NotFound(err) {
		return nil
	}
	return d.client.Explain(err)
}

// End implements engine.Session. It destroys the session, and the keys go with it. If the service does not answer soon,
// that goes on in the background, while another session is opened.
func (s *session) End(ctx context.Context, _ []engine.Removal) error {
	ctx, cancel := context.WithTimeout(ctx, min(s.driver.config.TTL/4, closeLimit/2))
	defer cancel()
	select {
	case <-s.letGo():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
	}
}

// doubt is called when a watch broke, or went back: the agent or the session might be gone, or the service restored from a
// snapshot. Keep confirms the session at once.
func (d *driver) doubt() {
	d.mu.Lock()
	s := d.present
	d.mu.Unlock()
	if s == nil {
		return
	}
	s.connection.Add(1)
	select {
	case d.due <- struct{}{}:
	default:
	}
}
