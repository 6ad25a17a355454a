package zookeeper_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/stretchr/testify/require"
)

// A new connection has as much time for its first answer as any other, whenever the last answer was due. On a busy
// machine a connection may be given up, but not before that time is over.
func TestReconnectionIsNotCut(t *testing.T) {
	for _, d := range []time.Duration{ttl, 3 * time.Second} {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			link := &storetest.Link{}
			tp := newTap(t, link.Dial)
			line := &timedLine{dial: tp.Dial}
			trip := d / 12
			link.RoundTrip(trip)
			st := open(t, zookeeper.Config{Servers: sharedServer(t).Addrs(), TTL: d, Dial: line.Dial})
			castFirst(t, st, newElection(), "own")
			for i := range time.Duration(6) {
				confirmedAgain(t, st)
				time.Sleep(i * d / 36) // at any moment between two confirmations
				before := len(line.all())
				tp.breakOff()
				confirmedAgain(t, st)
				dialled := line.all()[before:]
				require.NotEmpty(t, dialled)
				for _, c := range dialled[:len(dialled)-1] {
					if c.greeted.IsZero() {
						require.GreaterOrEqual(t, c.closed.Sub(c.made), 2*trip, "without an answer to the handshake")
					} else {
						require.GreaterOrEqual(t, c.closed.Sub(c.greeted), min(d/4, 3*trip), "without an answer to a confirmation")
					}
				}
			}
		})
	}
}

// timedLine notes how long the connections of a store last.
type timedLine struct {
	dial conformance.DialFunc

	mu    sync.Mutex
	conns []*timedConn // guarded by mu
}

type timedConn struct {
	net.Conn
	line *timedLine

	timedLife // guarded by the line's mu
}

// timedLife is when a connection was made, when the first answer came, and when the store closed it.
type timedLife struct{ made, greeted, closed time.Time }

// Dial is a conformance.DialFunc.
func (l *timedLine) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := l.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &timedConn{Conn: conn, line: l, timedLife: timedLife{made: time.Now()}}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns = append(l.conns, c)
	return c, nil
}

func (l *timedLine) all() (list []timedLife) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		list = append(list, c.timedLife)
	}
	return list
}

func (c *timedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.note(&c.greeted)
	}
	return n, err
}

func (c *timedConn) Close() error {
	c.note(&c.closed)
	return c.Conn.Close()
}

// note notes the first time.
func (c *timedConn) note(at *time.Time) {
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	if at.IsZero() {
		*at = time.Now()
	}
}

// Followers stay fresh over a slow link while their calls are pending, and when the link is quick again: the store
// resyncs meanwhile, which takes some round trips.
func TestAsOfOverASlowLink(t *testing.T) {
	for _, acknowledged := range []bool{true, false} {
		t.Run(fmt.Sprintf("acknowledged %t", acknowledged), func(t *testing.T) {
			t.Parallel()
			election := newElection()
			leader := castFirst(t, open(t, zookeeper.Config{Servers: sharedServer(t).Addrs(), TTL: long}), election, "leader")
			if acknowledged {
				acknowledge(t, leader, "leader")
			}
			link := &storetest.Link{}
			st := open(t, zookeeper.Config{Servers: sharedServer(t).Addrs(), TTL: middling, Dial: link.Dial})
			known, err := storetest.Leader(soon(t), st, election, nil)
			require.NoError(t, err)
			told := make(chan store.Leader, 3)
			ctx, cancel := context.WithCancel(t.Context())
			var calls sync.WaitGroup
			for range cap(told) {
				calls.Go(func() {
					if l, err := storetest.Leader(ctx, st, election, &known); err == nil {
						told <- l
					}
				})
			}
			defer calls.Wait()
			defer cancel()
			for _, percent := range []time.Duration{0, 12, 2} {
				link.RoundTrip(middling * percent / 100)
				for range 3 {
					start := time.Now()
					storetest.Confirmed(t, st, election)
					if percent != 12 {
						require.Less(t, time.Since(start), long/2)
					}
				}
			}
			record := acknowledge(t, leader, "changed")
			for range cap(told) {
				require.Equal(t, record, receive(t, told, "the change"))
			}
		})
	}
}
