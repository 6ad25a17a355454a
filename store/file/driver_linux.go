package file

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store/engine"
)

// driver implements engine.Driver on a directory. It does not implement engine.Peers, which
// measures how long a session has not been renewed, for machines that share no clock. Here a session has a deadline, by
// a clock that all processes share.
type driver struct {
	config  Config
	ops     ops
	asked   requests
	line    *line
	clock   func() time.Duration // since the machine was started, the same in all processes
	durable bool                 // whether the file system is
	hub     *hub
	life    *adapter.Lifecycle // of the goroutines
	numbers numbers
	mode    atomic.Uint32 // the permissions of the directory if it is shared; otherwise 0

	mu       sync.Mutex
	watches  map[*watch]struct{} // guarded by mu, as are all below
	monitors map[string]*monitor // by session
	sessions map[string]*session // our own, that have not been ended
}

// newDriver returns a driver for checked settings. It makes nothing.
func newDriver(c Config) (engine.Driver, error) { return newDriverWith(c, kernel{}, nil) }

// newDriverWith is newDriver with other system calls, and with another function that returns the type of a file system,
// or nil for the usual one.
func newDriverWith(c Config, calls ops, kind func(dir string) (uint32, error)) (*driver, error) {
	if kind == nil {
		kind = fileSystem
	}
	d := &driver{config: c, ops: calls, asked: requests{limit: c.TTL, began: map[*time.Time]struct{}{}}, watches: map[*watch]struct{}{}, monitors: map[string]*monitor{}, sessions: map[string]*session{}}
	k, err := kind(c.Directory)
	if errors.Is(err, syscall.ENOTDIR) {
		return nil, adapter.Refuse("directory", c.Directory, "it is in something that is no directory")
	}
	if err != nil {
		return nil, err
	}
	if d.durable, err = durable(c.Directory, k); err != nil {
		return nil, err
	}
	if _, err := d.version(); errors.Is(err, syscall.ENOTDIR) {
		return nil, adapter.Refuse("directory", c.Directory, "it is no directory")
	} else if err != nil {
		return nil, err
	}
	var offset time.Duration
	if err = showsUs("/proc"); err == nil {
		offset, err = bootOffset("/proc")
	}
	if err != nil {
		return nil, adapter.Refuse("directory", c.Directory, "the store can't use the clock of this machine: %v", err)
	}
	d.clock = func() time.Duration { return bootTime() - offset }
	if d.hub, err = openHub(); err != nil {
		return nil, err
	}
	d.life = adapter.NewLifecycle("file", false, c.Directory)
	d.numbers.driver = d
	if _, err := d.ops.exists(d.root() + "/."); err != nil {
		return nil, errors.Join(explain(err), d.hub.close())
	}
	d.line = newLine(c.faults, d.life)
	return d, nil
}

// ask carries out a request that has an answer. While another one hangs it waits, so that requests do not pile up.
func ask[T any](ctx context.Context, d *driver, request func() (T, error)) (T, error) {
	if err := d.asked.wait(ctx); err != nil {
		var none T
		return none, err
	}
	return askNow(ctx, d, request)
}

// askNow is ask also while a request hangs.
func askNow[T any](ctx context.Context, d *driver, request func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	var none T
	if err := d.line.request(ctx, func() {
		defer d.asked.begin()()
		value, err := request()
		answers <- answer{value, explain(err)}
	}); err != nil {
		return none, err
	}
	a := <-answers
	return a.value, a.err
}

// do carries out a request that has none.
func do(ctx context.Context, d *driver, request func() error) error {
	_, err := ask(ctx, d, func() (struct{}, error) { return struct{}{}, request() })
	return err
}

// Confirm implements engine.Driver. What happened before is in the queue of events, which is told first.
func (d *driver) Confirm(ctx context.Context) error {
	asOf := time.Now()
	return do(ctx, d, func() error {
		d.hub.drain()
		if err := d.lookAtDue(); err != nil {
			return err
		}
		if _, err := d.ops.exists(d.root() + "/."); err != nil { // the dot takes the permission to search it
			return err
		}
		d.line.news(func() { d.confirmed(asOf) })
		return nil
	})
}

// Close implements engine.Driver.
func (d *driver) Close() error {
	d.life.Stop()
	d.life.Wait()
	for _, w := range d.all() {
		w.stop()
	}
	for _, s := range d.own() { // those that could not be ended
		_ = s.remove()
	}
	return d.hub.close()
}

// own returns the sessions of this store.
func (d *driver) own() []*session {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Values(d.sessions))
}

// add records a session of this store, and forgets those that are over.
func (d *driver) add(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.sessions, func(_ string, old *session) bool { return old.isOver() })
	d.sessions[s.id] = s
}

// owned returns the session of this store with that id, or nil.
func (d *driver) owned(id string) *session {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sessions[id]
}

// present reports whether the sessions of this store are in the directory: not if one has just ended, or the directory was
// moved away.
func (d *driver) present() bool {
	for _, s := range d.own() {
		if there, err := d.ops.exists(d.sessionDir(s.id)); !there || err != nil {
			return false
		}
	}
	return true
}

func (d *driver) warn(what string, err error) { d.life.Warn(d.config.Logger, what, "error", err) }

// unique returns a name that is never used again.
func unique() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
