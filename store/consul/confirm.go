package consul

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul/internal/agent"
	"github.com/hashicorp/consul/api"
)

var (
	errEnded     = errors.New("the session has ended")
	errUnchecked = errors.New("the session's check was deregistered")
)

// confirmation is one try to confirm a session.
type confirmation struct {
	session *session
	sent    store.Instant // before its requests
	renews  bool          // the session itself, as against its check
	left    bool          // its agent was left, since it did not answer

	passed, renewed, proved error     // what came of the requests
	answered                time.Time // when the last of their answers came
}

// run sends the requests of a confirmation at the same time, and waits for all answers.
func (c *confirmation) run(ctx context.Context, d *driver) {
	ctx, cancel := context.WithTimeout(ctx, d.config.TTL-d.config.Grace)
	defer cancel()
	sess := c.session
	var requests sync.WaitGroup
	if sess.check != "" {
		requests.Go(func() { c.passed = d.pass(ctx, sess.check) })
	}
	if c.renews {
		requests.Go(func() { c.renewed = d.renew(ctx, sess.id) })
	}
	if c.proved = d.prove(ctx, sess); errors.Is(c.proved, errEnded) {
		cancel() // whatever the others say
	}
	requests.Wait()
	c.answered = time.Now()
}

// err returns what kept the session from being confirmed.
func (c *confirmation) err() error {
	sess := c.session
	if errors.Is(c.proved, errEnded) {
		return c.proved
	}
	switch {
	case c.passed == nil:
		sess.unknown = false
	case agent.NotFound(c.passed) && sess.unknown:
		return errUnchecked
	case agent.NotFound(c.passed): // perhaps not the agent's words: ask again
		sess.unknown = true
		return c.passed
	}
	switch {
	case c.passed != nil:
		return c.passed
	case agent.NotFound(c.renewed) && c.proved == nil:
		return errNoSession
	case c.renewed != nil:
		return c.renewed
	}
	return c.proved
}

// errNoSession says that a renewal was answered as if there were no session, which a read has found.
var errNoSession = agent.Odd("a renewal was answered as if there were no session")

// renew renews the session itself.
func (d *driver) renew(ctx context.Context, id string) error {
	var renewed []api.SessionEntry
	_, err := d.client.Raw().Write("/v1/session/renew/"+id, nil, &renewed, d.client.WriteOptions(ctx))
	if err == nil && (len(renewed) == 0 || renewed[0].ID != id) {
		return errNoSession
	}
	return err
}

// pass passes the check. The agent's answer has no content.
func (d *driver) pass(ctx context.Context, check string) error {
	var content any
	_, err := d.client.Raw().Write("/v1/agent/check/update/"+check, map[string]string{"Status": api.HealthPassing}, &content, d.client.WriteOptions(ctx))
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return agent.Odd("the pass of a check was answered with content")
	}
	return err
}

// prove finds out whether the session stands.
func (d *driver) prove(ctx context.Context, sess *session) error {
	info, meta, err := d.client.Session().Info(sess.id, d.client.Consistent(ctx))
	if err = agent.FromAgent(meta, err); err == nil && info == nil {
		return errEnded
	}
	return err
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
	return d.client.Explain(ctx, err)
}
