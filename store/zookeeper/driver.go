package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/internal/lifeline"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// driver implements engine.Driver. It keeps one connection to an ensemble and one session, even before the engine asks for a
// session.
//
// Its goroutines are run, which connects and confirms the session, one for each request under way, and one for each client
// of the library that is ending. Close waits for all of them.
type driver struct {
	config    Config
	root      string // chroot and root
	lifecycle *adapter.Lifecycle
	lifeline  lifeline.Line // nil without one

	mu      sync.Mutex
	changed chan struct{} // guarded by mu, as are all below; closed and replaced at each change
	current *session      // the session that the next handshake asks for; nil: a new one
	link    *link         // the connection for requests; nil while there is none
	granted bool          // a server has granted a session
	refused error         // why the ensemble's sessions can't be used; run has ended
	trouble error         // why there is no connection; nil while requests can use one
	zxid    int64         // the highest on earlier connections
}

func newDriver(config Config) (*driver, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	d := &driver{
		config:    config,
		root:      config.Chroot + config.Root,
		lifecycle: adapter.NewLifecycle("zookeeper", config.TLS != nil, strings.Join(config.Servers, ",")+config.Chroot),
		changed:   make(chan struct{}),
	}
	var err error
	if d.lifeline, err = config.settings().OpenLifeline(d.lifecycle, "zookeeper", nil); err != nil {
		return nil, err
	}
	d.lifecycle.Go(d.run)
	return d, nil
}

// set changes the state and wakes the goroutines that wait for a change.
func (d *driver) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
	close(d.changed)
	d.changed = make(chan struct{})
}

// until waits until holds returns true or an error. It calls holds under mu, now and at each change.
func (d *driver) until(ctx context.Context, holds func() (bool, error)) error {
	for {
		d.mu.Lock()
		done, err := holds()
		changed := d.changed
		d.mu.Unlock()
		switch {
		case done:
			return nil
		case err != nil:
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return d.unreached(ctx)
		}
	}
}

// unreached returns why there is no connection that serves.
func (d *driver) unreached(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.link.works() {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
	}
	return fmt.Errorf("%w: no connection: %w", store.ErrUnavailable, cmp.Or(d.trouble, context.Cause(ctx)))
}

// mostWait is how long a call waits for a connection. Then the call reports what is wrong, and the engine calls again.
const mostWait = time.Second

// denial returns why the ensemble refuses the store, or nil. While there is a session, a refused identity is worth another
// attempt: the next password might be accepted. The caller holds mu.
func (d *driver) denial() error {
	switch {
	case d.refused != nil:
		return d.refused
	case !errors.Is(d.trouble, store.ErrDenied):
		return nil
	case d.current != nil && d.current.opened:
		return engine.Answered(fmt.Errorf("%w: %w", store.ErrUnavailable, d.trouble))
	}
	return d.trouble
}

// up returns the connection for requests. If there is none, it waits for one.
func (d *driver) up(ctx context.Context) (l *link, err error) {
	ctx, cancel := context.WithTimeout(ctx, mostWait)
	defer cancel()
	err = d.until(ctx, func() (bool, error) {
		l = d.link
		return l.works(), d.denial()
	})
	return l, err
}

// errKept says that there is one session at a time.
var errKept = engine.Answered(fmt.Errorf("%w: the session before stands until its leader's work has stopped", store.ErrUnavailable))

// Open implements engine.Driver. The session is that of the connection, once the session before has ended.
func (d *driver) Open(ctx context.Context) (s engine.Session, proof engine.Proof, err error) {
	ctx, cancel := context.WithTimeout(ctx, mostWait)
	defer cancel()
	kept := false
	err = d.until(ctx, func() (bool, error) {
		l := d.link
		kept = d.current != nil && d.current.opened && !d.current.ending
		if !l.works() || l.session != d.current || l.session.opened {
			return false, d.denial()
		}
		l.session.opened = true
		s, proof = l.session, l.session.proof
		return true, nil
	})
	if err != nil && kept {
		err = errKept
	}
	return s, proof, err
}

// Close implements engine.Driver. It ends the session, and the nodes go with it.
func (d *driver) Close() error {
	d.lifecycle.Stop()
	d.lifecycle.Wait()
	return nil
}
