package zookeeper

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
)

// The time from one dial to the next, once each server has failed. The time doubles, so an outage makes at most four
// connections a second. A server that has answered the handshake is dialled once in TTL/6 at least, and not as often: the
// library's client takes 3 MB (TestServerHangsUpAfterTheHandshake). A connection has worked if it has lasted for steady.
const (
	leastPause = 50 * time.Millisecond
	mostPause  = 250 * time.Millisecond
	steady     = time.Second
)

// errExpired says that the session has expired. The next handshake asks for a new one.
var errExpired = errors.New("the session has expired")

// run keeps a connection until the store is closed, or the ensemble refuses the store. The servers are dialled in turn,
// in a random order.
func (d *driver) run() {
	servers := slices.Clone(d.config.Servers)
	rand.Shuffle(len(servers), func(i, k int) { servers[i], servers[k] = servers[k], servers[i] })
	var before *link // the last connection whose watches are not over
	failed := 0      // how many connections have failed since one worked
	most := mostPause
	var dialled time.Time
	next := 0 // the server to dial
	for number := uint64(1); d.lifecycle.Background.Err() == nil; number++ {
		if again := failed - len(servers); again >= 0 {
			adapter.PauseFor(d.lifecycle.Background, min(leastPause<<min(again, 10), most)-time.Since(dialled))
		}
		dialled = time.Now()
		address := servers[next%len(servers)]
		l, err := d.connect(address, failed < len(servers))
		failed++
		most = mostPause
		if err == nil {
			most = max(mostPause, d.config.TTL/6)
			l.watches.number = number
			err = l.serve(before)
			if d.leave(l) {
				before = l
			}
			if time.Since(dialled) >= steady {
				failed = 0
			}
		}
		if errors.Is(err, errExpired) {
			failed = 0
		}
		if !errors.Is(err, errStoodStill) {
			next++
		}
		refused := false
		d.set(func() { d.trouble, refused = fmt.Errorf("%s: %w", address, err), d.refused != nil })
		if refused {
			return
		}
	}
}

// leastLimit is how long each step of connecting may take at least, so that a server can refuse a TTL that is too short.
const leastLimit = 250 * time.Millisecond

// limit is how long each step of connecting may take. A server that has just started can leave a handshake without an
// answer, and the lease has to outlast that (TestServerRestarts).
func (d *driver) limit() time.Duration { return max(patience(d.config.TTL), leastLimit) }

// connect makes a connection with a session. In the first round, a server that may be gone holds up the others for a
// second at most.
func (d *driver) connect(address string, first bool) (*link, error) {
	limit := d.limit()
	if first {
		limit = min(limit, time.Second)
	}
	ctx, cancel := context.WithTimeout(d.lifecycle.Background, limit)
	defer cancel()
	conn, err := d.config.dialer.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	d.config.dialer.Leave(address, conn.RemoteAddr()) // the next connection goes to another address of the name
	if d.config.TLS != nil {
		ctx, cancel := context.WithTimeout(d.lifecycle.Background, 2*d.limit())
		defer cancel()
		if conn, err = adapter.Secure(ctx, conn, d.config.TLS, address); err != nil {
			return nil, d.hint(err, noTLS(err))
		}
	}
	l, err := d.shake(newWire(conn), address)
	return l, d.hint(err, d.config.TLS == nil)
}

// hint adds to an error which scheme to write, if the scheme might be wrong.
func (d *driver) hint(err error, wrong bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil || !wrong || d.granted {
		return err
	}
	return adapter.HintTLS(err, "zookeeper", d.config.TLS != nil)
}

// noTLS reports whether a server has answered the TLS handshake with something else, or by hanging up.
func noTLS(err error) bool {
	_, header := errors.AsType[tls.RecordHeaderError](err)
	return header || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
}
