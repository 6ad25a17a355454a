package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-zookeeper/zk"
)

// driver implements engine.Driver: a connection to an ensemble, and the session that
// every such connection has, whether the engine wants one or not.
//
// Its goroutines are keep, which confirms the session; authenticate, until that is done; and one for each request under
// way. Close waits for all of them.
type driver struct {
	config Config        // but for its password
	secret func() string // the password, where neither package fmt nor a debugger's dump of the store comes upon it
	layout layout
	acl    []zk.ACL
	conn   *zk.Conn
	events <-chan zk.Event // closed when the client library has ended

	lifecycle *adapter.Lifecycle
	hosts     hosts

	watches   watches
	elections elections

	mu            sync.Mutex
	wire          *wire         // guarded by mu, as are all below
	current       *session      // nil before the first and between two
	changed       chan struct{} // closed and replaced at every connection, when a session ends and at every confirmation
	leaving       int64         // the id of a session that was given up; 0 if there is none
	ending        bool          // the next handshake must end it
	confirmed     time.Time     // when the session's last confirmation, or barrier, that was answered was sent; zero before
	authenticated bool
	refused       error         // why no session will do
	trouble       error         // why there is no connection, if there is none
	ready         time.Time     // when that of the present connection was answered; zero if it was not
	trip          time.Duration // how long that handshake, or the one before, took; zero if no session was ever granted
	unanswered    time.Time     // since when all handshakes have had no answer; zero if the last one had
}

func newDriver(config Config) (*driver, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	password := config.Password
	config.Password = ""
	d := &driver{
		config:    config,
		secret:    func() string { return password },
		layout:    layout{config.Chroot + config.Root, config.BallotPrefix, config.AckName},
		lifecycle: adapter.NewLifecycle("zookeeper", config.TLS != nil, strings.Join(config.Servers, ",")+config.Chroot),
		acl:       config.ACL.list(),
		changed:   make(chan struct{}),
	}
	if err := d.connect(); err != nil {
		d.lifecycle.Stop()
		return nil, err
	}
	d.authenticated = config.User == ""
	if !d.authenticated {
		d.lifecycle.Go(d.authenticate)
	}
	d.lifecycle.Go(d.keep)
	return d, nil
}

func (d *driver) connect() error {
	var err error
	d.conn, d.events, err = zk.Connect(d.config.Servers, d.config.TTL,
		zk.WithHostProvider(&d.hosts),
		zk.WithDialer(d.dial),
		zk.WithEventCallback(d.watches.event),
		zk.WithLogger(logger{d.config.Logger}),
	)
	if err != nil {
		return adapter.Refuse("servers", strings.Join(d.config.Servers, ","), "%v", err)
	}
	return nil
}

// logger hands the client library's messages on. They hold addresses and session ids, no credentials.
type logger struct{ to *slog.Logger }

func (l logger) Printf(format string, args ...any) { l.to.Debug(fmt.Sprintf(format, args...)) }

// authenticate adds the digest identity to the connection; the library repeats that at each later connection. No
// request is sent before it is done.
func (d *driver) authenticate() {
	for d.lifecycle.Background.Err() == nil {
		err := d.conn.AddAuth("digest", []byte(d.config.User+":"+d.secret()))
		if errors.Is(err, zk.ErrAuthFailed) {
			d.set(func() {
				d.refused = fmt.Errorf("%w: the server refuses the identity of user %q", store.ErrDenied, d.config.User)
			})
			return
		}
		if err == nil {
			d.set(func() { d.authenticated = true })
			return
		}
		adapter.Pause(d.lifecycle.Background)
	}
}

// set changes the store's state and wakes those who wait for a change.
func (d *driver) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
	close(d.changed)
	d.changed = make(chan struct{})
}

// errKept is why there is no next session yet.
var errKept = engine.Answered(fmt.Errorf("%w: the session before stands until its leader's work has stopped", store.ErrUnavailable))

// Open implements engine.Driver: it waits for the session of the connection, and before that for the end of the one that
// was opened before. It reports what is in the way now and then.
func (d *driver) Open(ctx context.Context) (engine.Session, engine.Proof, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var s *session
	var proof engine.Proof
	var kept bool
	err := d.until(ctx, func() (bool, error) {
		s = d.current
		if kept = s != nil && s.opened; kept || s == nil || !d.authenticated || d.refused != nil {
			return false, d.refused
		}
		s.opened, proof = true, s.proof
		return true, nil
	})
	switch {
	case err == nil:
		return s, proof, nil
	case kept && ctx.Err() != nil:
		err = errKept
	}
	return nil, proof, err
}

// Close implements engine.Driver. It ends the session, and the nodes go with it.
func (d *driver) Close() error {
	d.hosts.closed.Store(true)
	d.lifecycle.Stop()
	d.set(func() { d.lose(nil) })
	d.conn.Close()
	d.cut(store.ErrClosed) // a handshake under way
	for range d.events {
	} // until the library has ended
	d.lifecycle.Wait()
	return nil
}
