package zookeeper_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/stretchr/testify/require"
)

// A candidate leads and keeps leading at round trips of up to 0.18 TTL, with the default grace. docs/backends.md
// derives the limit. A term may end if confirmations took longer than that allows, or the test's process was paused.
func TestSlowLink(t *testing.T) {
	process := newPauses(t)
	for _, percent := range []time.Duration{5, 12, 18} {
		t.Run(fmt.Sprintf("round trip of %d%% of the TTL", percent), func(t *testing.T) {
			t.Parallel()
			link := &storetest.Link{}
			tp := newTap(t, link.Dial)
			roundTrip := long * percent / 100
			link.RoundTrip(roundTrip)
			st := open(t, zookeeper.Config{Servers: sharedServer(t).Addrs(), TTL: long, Dial: tp.Dial})
			c := contend(t, st, newElection(), "own")
			for range 3 {
				term := receive(t, c.Terms, "the term")
				began := time.Now()
				select {
				case <-time.After(2 * long):
					return
				case <-term.Context().Done():
				}
				slowest, paused := slices.Max(tp.confirmations(began)), process.since(time.Now().Add(-long))
				cut := max(long/6, min(long/4, 3*roundTrip)) // after which the connection is given up
				require.True(t, slowest >= cut || 2*slowest+paused+long*5/24 >= long-long/3,
					"%v, with round trips of %v at most and %v in which the process stood still",
					context.Cause(term.Context()), slowest, paused)
				t.Logf("once more: a confirmation took %v, and the process stood still for %v", slowest, paused)
			}
			t.Skip("the machine was too slow each time")
		})
	}
}

// pauses records for how long the test's process was paused.
type pauses struct {
	mu   sync.Mutex
	list []pause // guarded by mu
}

type pause struct {
	ended  time.Time
	lasted time.Duration
}

// newPauses watches the process until the test and its subtests end.
func newPauses(t *testing.T) *pauses {
	p, quit, done := &pauses{}, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		const look, usual = 5 * time.Millisecond, 10 * time.Millisecond
		for before := time.Now(); ; {
			select {
			case <-quit:
				return
			case <-time.After(look):
			}
			now := time.Now()
			if lasted := now.Sub(before) - look; lasted > usual {
				p.mu.Lock()
				p.list = append(p.list, pause{now, lasted})
				p.mu.Unlock()
			}
			before = now
		}
	}()
	t.Cleanup(func() { close(quit); <-done })
	return p
}

// since returns the sum of the pauses that ended after a time.
func (p *pauses) since(at time.Time) (sum time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pause := range p.list {
		if pause.ended.After(at) {
			sum += pause.lasted
		}
	}
	return sum
}

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
			for _, percent := range []time.Duration{0, 18, 2} {
				link.RoundTrip(middling * percent / 100)
				for range 3 {
					start := time.Now()
					storetest.Confirmed(t, st, election)
					if percent != 18 {
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
