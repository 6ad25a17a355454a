package consul

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
	id     string // constant once it was created; empty if the service has not told it
	check  string // constant: the id of the service and of its check that the session is bound to; empty if there is none

	ended atomic.Bool // the service has said that there is no such session
	tries int         // of clearLeft: how often it was tried in vain to destroy the session

	marks [engine.Slots]atomic.Uint64 // the index of the mark of each slot, as far as is known; 0: there is none

	// Of renewals. Written by the one who opens the session, then used by Keep alone.
	sent    store.Instant // when the last one that counted was sent
	renewed time.Time     // when the session itself was last renewed, as against its check
	// connection counts how often the agent did not confirm the session, and how often the service's index might have gone
	// back, as it does by a restore: what was told before might be wrong now.
	connection atomic.Uint64
}

// ID implements engine.Session.
func (s *session) ID() string { return s.id }

// over is called when the service says that there is no such session.
func (s *session) over() error {
	s.ended.Store(true)
	return engine.ErrOver
}

// Open implements engine.Driver.
func (d *driver) Open(ctx context.Context) (engine.Session, engine.Proof, error) {
	ctx, cancel := context.WithTimeout(ctx, max(agent.RequestLimit, 2*d.config.TTL))
	defer cancel()
	if err := d.client.Ready(ctx); err != nil {
		return nil, engine.Proof{}, failFast(err)
	}
	d.clearLeft(false)
	s := &session{driver: d, sent: store.Now(), renewed: time.Now()}
	err := d.create(ctx, s, "leadership-"+newName())
	if lease := d.config.TTL - d.config.Grace; err == nil && s.sent.Since(time.Now()) >= lease {
		err = fmt.Errorf("%w: creating the session took longer than its lease of %v", store.ErrUnavailable, lease)
	}
	if err != nil {
		d.drop(s, true)
		return nil, engine.Proof{}, failFast(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.behind) // what is left of another session
	d.present = s
	return s, s.proof(s.sent), nil
}

func (s *session) proof(sent store.Instant) engine.Proof {
	return engine.Proof{Sent: sent, Valid: s.driver.config.TTL - s.driver.config.Grace, Connection: 1 + s.connection.Load()}
}

// failFast marks an error of Open that callers must learn at once: waiting does not help soon.
func failFast(err error) error {
	if errors.Is(err, store.ErrDenied) || errors.Is(err, agent.ErrRefused) {
		return engine.FailFast(err)
	}
	return err
}

// create creates a session at the service, with its check. The check's timer starts at the agent when the check is
// registered, and the session's at the servers when the session is created: the lease begins before both.
func (d *driver) create(ctx context.Context, sess *session, name string) error {
	// The library's own call leaves out an empty list and a delay of zero, which then are given defaults.
	settings := map[string]any{
		"Name": name, "TTL": max(d.config.TTL, leastSessionTTL).String(), "Behavior": api.SessionBehaviorDelete,
		"LockDelay": "0s", "NodeChecks": []string{},
	}
	if d.config.checked() {
		sess.check = name
		if err := d.client.Explain(d.register(ctx, name)); err != nil {
			if errors.Is(err, store.ErrDenied) { // by the agent alone, which might go on after its servers know better
				err = fmt.Errorf("%w: %w", store.ErrUnavailable, err)
			}
			return fmt.Errorf("register the session's check: %w", err)
		}
		settings["ServiceChecks"] = []api.ServiceCheck{{ID: name, Namespace: d.config.Namespace}}
	}
	var created struct{ ID string }
	_, err := d.client.Raw().Write("/v1/session/create", settings, &created, d.client.WriteOptions(ctx))
	if err == nil && created.ID == "" {
		err = agent.Odd("a new session has no ID")
	}
	if err = d.client.Explain(err); err != nil {
		if strings.Contains(err.Error(), "Missing check") {
			err = fmt.Errorf("%w; %s", err, oneAgent)
		}
		return fmt.Errorf("create a session: %w", err)
	}
	sess.id = created.ID
	return nil
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

// endLimit bounds what End waits for the service.
const endLimit = time.Second

// End implements engine.Session. It destroys the session, and the keys go with it.
func (s *session) End(ctx context.Context, _ []engine.Removal) error {
	ctx, cancel := context.WithTimeout(ctx, endLimit)
	defer cancel()
	err := s.driver.clearAway(ctx, s)
	s.driver.drop(s, err != nil) // not when Keep returns: while End is tried, Confirm finds out whether there is an outage
	return err
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
	d.confirmNow()
}

// confirmNow makes Keep confirm the session at once.
func (d *driver) confirmNow() {
	select {
	case d.due <- struct{}{}:
	default:
	}
}
