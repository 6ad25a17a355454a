package memory

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/internal/faulty"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// driver implements engine.Driver. All its watches are of one stream, unless they are unordered. A line that
// is cut only delays; one that breaks ends them.
type driver struct {
	service *Service
	faults  *Faults
	config  Config
	line    *line
	stop    context.CancelFunc // ends the line's goroutines
	last    atomic.Uint64      // the session opened last
	broken  atomic.Uint64      // how often the connection has broken
}

func newDriver(service *Service, config Config) *driver {
	d := &driver{service: service, config: config}
	d.faults = &Faults{driver: d, Line: faulty.New()}
	d.line = &line{kind: config.Watches, faults: d.faults, wake: make(chan struct{}, 1), watches: map[*watch]struct{}{}}
	ctx, stop := context.WithCancel(context.Background())
	d.stop = stop
	d.line.tasks.Go(func() { d.line.run(ctx) })
	return d
}

// Open implements engine.Driver.
func (d *driver) Open(ctx context.Context) (engine.Session, engine.Proof, error) {
	s := &driverSession{driver: d, opened: store.Now()}
	if err := d.faults.pass(ctx, func() { s.id = d.service.open(d.config.TTL, d.config.Peers) }); err != nil {
		d.service.drop(s.id) // its owner does not know of it
		return nil, engine.Proof{}, err
	}
	d.last.Store(s.id)
	return s, d.proof(s.opened), nil
}

func (d *driver) proof(sent store.Instant) engine.Proof {
	return engine.Proof{
		Sent: sent, Valid: byClock(d.config.TTL-d.config.Grace, d.config.Clock), Connection: 1 + d.broken.Load(),
	}
}

// WatchEntry implements engine.Driver.
func (d *driver) WatchEntry(ctx context.Context, key string, tell engine.Tell) (engine.Watch, error) {
	return d.watch(ctx, key, tell)
}

// WatchLeader implements engine.Driver.
func (d *driver) WatchLeader(ctx context.Context, election string, tell engine.Tell) (engine.Watch, error) {
	return d.watch(ctx, leaderKey(election), tell)
}

// watch sets a watch and reads its key in one request.
func (d *driver) watch(ctx context.Context, key string, tell engine.Tell) (engine.Watch, error) {
	w := &watch{key: key, line: d.line, tell: tell}
	stop := func() { d.service.locked(func() { d.service.unset(w) }) }
	asked := time.Now()
	e, err := read(ctx, d.faults, func() (event, error) { return d.service.watch(w), nil })
	if err != nil {
		stop()
		return engine.Watch{}, err
	}
	w.deliver(e)
	w.confirmed(asked)
	stream := uint64(1)
	if d.line.kind == Unordered {
		stream = 0
	}
	return engine.Watch{Stream: stream, Stop: stop}, nil
}

// Ahead implements engine.Driver.
func (d *driver) Ahead(ctx context.Context, e engine.Entry) (engine.Place, error) {
	return read(ctx, d.faults, func() (engine.Place, error) { return d.service.ahead(e.Key) })
}

// First implements engine.Driver.
func (d *driver) First(ctx context.Context, election string) (engine.State, error) {
	return read(ctx, d.faults, func() (engine.State, error) { return d.service.first(election), nil })
}

// Confirm implements engine.Driver.
func (d *driver) Confirm(ctx context.Context) error {
	asOf := time.Now()
	return d.faults.pass(ctx, func() { d.service.confirm(d.line, asOf) })
}

// Ballots implements engine.Driver.
func (d *driver) Ballots(ctx context.Context, election string) ([]store.Standing, error) {
	return read(ctx, d.faults, func() ([]store.Standing, error) { return d.service.standing(election), nil })
}

// Elections implements engine.Driver.
func (d *driver) Elections(ctx context.Context) ([]string, error) {
	return read(ctx, d.faults, func() ([]string, error) { return d.service.names(), nil })
}

// RequestResignation implements engine.Driver.
func (d *driver) RequestResignation(ctx context.Context, election string, token uint64) error {
	return write(ctx, d.faults, func() error { d.service.mark(election, token); return nil })
}

// Clear implements engine.Driver. It is an operator's call, so it does not go over the store's line.
func (d *driver) Clear(_ context.Context, election string) error {
	d.service.Clear(election)
	return nil
}

// Close implements engine.Driver.
func (d *driver) Close() error {
	d.stop()
	d.line.tasks.Wait()
	d.service.locked(func() {
		for w := range d.line.watches {
			d.service.unset(w)
		}
	})
	return nil
}

// driverSession implements engine.Session.
type driverSession struct {
	driver *driver
	id     uint64
	opened store.Instant // when the request was sent
}

// ID implements engine.Session.
func (s *driverSession) ID() string { return sessionName(s.id) }

func sessionName(id uint64) string { return strconv.FormatUint(id, 10) }

// Keep implements engine.Session: it renews the session a quarter of the TTL after the last request was sent, so that
// the lease is renewed in time while two round trips and a twentieth of the TTL fit into it. If the request that opened
// the session was sent longer ago than that, the session is renewed at once.
func (s *driverSession) Keep(ctx context.Context, renewed func(engine.Proof)) error {
	d := s.driver
	ttl := byClock(d.config.TTL, d.config.Clock)
	least := time.Duration(0)
	for sent := s.opened; ; least = ttl / 20 {
		adapter.PauseFor(ctx, max(least, ttl/4-time.Since(sent.Time())))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var lives bool
		sent = store.Now()
		err := d.faults.pass(ctx, func() { lives = d.service.touch(s.id, time.Duration(d.faults.late.Load())) })
		switch {
		case err == nil && !lives:
			return nil
		case err == nil:
			p := d.proof(sent)
			if time.Since(sent.Time()) >= p.Valid {
				d.service.locked(func() { d.service.tell(Event{Kind: ConfirmedLate}) })
			}
			renewed(p)
		}
	}
}

// End implements engine.Session. It ends the session at once, unless the line is cut.
func (s *driverSession) End(context.Context, []engine.Removal) error {
	if s.driver.faults.Line.IsCut() {
		return store.ErrUnavailable
	}
	s.driver.service.drop(s.id)
	return nil
}

// Enter implements engine.Session.
func (s *driverSession) Enter(ctx context.Context, election string, n engine.Nonce, value string) (engine.Entry, error) {
	return ask(ctx, s, func() (engine.Entry, error) { return s.driver.service.enter(s.id, n, election, value) })
}

// ask carries out a request for an entry of the session.
func ask[T any](ctx context.Context, s *driverSession, request func() (T, error)) (T, error) {
	service := s.driver.service
	stood := false // whether the session did when the request was carried out, the last time; guarded by the service's mutex
	v, err := send(ctx, s.driver.faults, true, func() (T, error) {
		stood = service.sessions[s.id] != nil
		return request()
	})
	service.locked(func() {
		if stood && service.sessions[s.id] == nil {
			service.tell(Event{Kind: EndedMeanwhile})
		}
	})
	return v, err
}

// Void implements engine.Session.
func (s *driverSession) Void(ctx context.Context, _ string, n engine.Nonce) error {
	_, err := ask(ctx, s, func() (struct{}, error) { return struct{}{}, s.driver.service.void(s.id, n) })
	return err
}

// Acknowledge implements engine.Session.
func (s *driverSession) Acknowledge(ctx context.Context, e engine.Entry, value string) (uint64, error) {
	return ask(ctx, s, func() (uint64, error) { return s.driver.service.acknowledge(e.Key, value) })
}

// Remove implements engine.Session. An acknowledgement never outlives its ballot here.
func (s *driverSession) Remove(ctx context.Context, r engine.Removal) error {
	_, err := ask(ctx, s, func() (struct{}, error) { s.driver.service.withdraw(r.Key); return struct{}{}, nil })
	return err
}
