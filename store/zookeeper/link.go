package zookeeper

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-zookeeper/zk"
)

// link is a connection. Each link has its own client of the library, so a request is sent on this connection and in this
// session, or never. The library neither reconnects nor sets watches again.
type link struct {
	driver  *driver
	wire    *wire
	session *session
	address string
	client  *zk.Conn
	ended   <-chan zk.Event // closed when the library has ended
	watches watches

	confirmed time.Time // guarded by the driver's mu: when the last barrier was sent that was answered

	touches  touches                 // only the goroutine that runs serve uses it, as all below
	identity <-chan result[struct{}] // the answer to identify; nil once the answer has come
	under    []confirmation          // confirmations without an answer, the oldest first
	sent     time.Time               // when the last confirmation was sent
	answered time.Time               // when the last answer came
	woke     time.Time               // when an answer was noticed to be late because this process had stood still
}

// confirmation is a barrier under way.
type confirmation struct {
	sent   store.Instant
	answer <-chan result[struct{}]
}

func newLink(d *driver, w *wire, address string, s *session, opened store.Instant) (l *link, err error) {
	l = &link{driver: d, wire: w, session: s, address: address}
	l.touches = touches{d.config.TTL, d.config.Grace, []touch{{sent: opened}}}
	l.client, l.ended, err = zk.Connect([]string{address}, d.config.TTL,
		zk.WithHostProvider(&once{address: address}),
		zk.WithDialer(func(string, string, time.Duration) (net.Conn, error) { return l.wire, l.wire.why() }),
		zk.WithEventCallback(func(e zk.Event) {
			if e.Type != zk.EventSession && e.Type != zk.EventNotWatching { // the connection, or the library, has ended
				l.watches.event(e)
			}
		}),
		zk.WithLogger(logger{d.config.Logger}),
	)
	return l, err
}

// works reports whether there is a connection that has not ended.
func (l *link) works() bool { return l != nil && l.wire.why() == nil }

// once implements zk.HostProvider for a client with one connection. When the connection is lost, the client waits to be
// closed.
type once struct {
	address   string
	connected bool
}

func (o *once) Init([]string) error { return nil }
func (o *once) Len() int            { return 1 }
func (o *once) Connected()          {}
func (o *once) Next() (server string, wait bool) {
	wait, o.connected = o.connected, true
	return o.address, wait
}

// logger hands the client library's messages on. They hold addresses and session ids, no credentials.
type logger struct{ to *slog.Logger }

func (l logger) Printf(format string, args ...any) { l.to.Debug(fmt.Sprintf(format, args...)) }

// endLimit bounds the wait for the answer to the end of a session.
const endLimit = 3 * time.Second

// close ends the library's client, and the session with it. It reports whether the server has answered the end of the
// session. If the connection has ended, close waits for a second at most.
func (l *link) close() bool {
	late := time.AfterFunc(min(l.driver.limit(), endLimit), func() { l.wire.end(errNotEnded) })
	defer late.Stop()
	l.client.Close()
	for range l.ended { // until the library has ended
	}
	return errors.Is(l.wire.why(), errLeft) // the library has closed it behind the last answer
}

var errNotEnded = errors.New("the end of the session was not answered")

// leave ends a connection. It ends the session too if the engine or Close has asked for that, or the TTL was refused. It
// reports whether requests could use the connection.
func (d *driver) leave(l *link) (used bool) {
	var ends bool
	d.set(func() {
		used = d.link == l
		d.link = nil
		d.zxid = max(d.zxid, l.wire.last.Load())
		ends = l.session.ending || d.refused != nil || d.lifecycle.Background.Err() != nil
	})
	if !ends || l.wire.why() != nil {
		l.wire.end(errLeft)
		if !d.lifecycle.Go(func() { l.close() }) {
			l.close()
		}
		return used
	}
	if l.close() {
		d.set(func() { d.lose(nil) })
	}
	return used
}

// explain says what the error of a request means. If the connection has ended, why says more than the library.
func (l *link) explain(err error) error {
	if errors.Is(err, zk.ErrSessionMoved) { // the server would say so for ever (TestSessionMoves)
		l.wire.end(err)
	}
	why := l.wire.why()
	switch {
	case why != nil && errors.Is(err, zk.ErrNoServer): // the request was not sent
		return fmt.Errorf("%w: %s: %w", store.ErrUnavailable, l.address, why)
	case why != nil && errors.Is(err, zk.ErrConnectionClosed):
		return fmt.Errorf("%w: %s: %w", store.ErrUnknownOutcome, l.address, why)
	}
	return explain(err)
}
