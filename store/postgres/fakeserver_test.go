package postgres

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"
)

// fakeServer speaks PostgreSQL's protocol within a synctest bubble, so that tests of the driver's timing take no time.
// It knows the functions of schema.sql by what they return. Its fields are set before the driver is used, or under mu.
type fakeServer struct {
	t     *testing.T
	began time.Time

	mu      sync.Mutex
	epoch   int                                  // what hello tells, unless epochs has one
	epochs  map[string]int                       // by address
	answer  map[string]func(args []string) []any // by function: its row or rows; else what is in defaults
	fails   map[string]string                    // by function: the SQLSTATE of the error
	hangs   map[string]bool                      // by function or statement, also with "@" and an address: there is no answer
	other   map[string]int                       // by function: every other call has no answer; how many there were
	refuses map[string]string                    // by address: the SQLSTATE with which it refuses connections
	hung    []func()                             // the answers that hang
	notices map[string]string                    // by function: the severity of what comes with the answer
	away    map[string]bool                      // by address: it refuses connections
	gone    map[string]bool                      // by address: packets to it are dropped
	slow    time.Duration                        // it takes so long to connect
	stuck   map[string]bool                      // by address: it takes connections and requests, and says nothing

	standbys map[string]bool // by address

	mute    bool     // notifications of clients get lost, as with a pooler
	dialled []string // addresses
	calls   []fakeCall
	cancels int // requests to cancel
	conns   map[*fakeConn]bool

	encoding, standby, layout string // what else hello tells, if it is not UTF8, f and 1
}

// fakeCall is a request that has come: of a function, or of another statement.
type fakeCall struct {
	what string
	args []string
	at   time.Duration
	conn *fakeConn
}

// fakeConn is a connection. What is sent is written by a goroutine of its own, so that the server always reads.
type fakeConn struct {
	net.Conn
	address string
	out     chan []byte
	listens bool // guarded by the server's mu
	hangs   bool // the last request has no answer
	sql     map[string]string
	args    []string
	formats []int16
	portal  string
}

// inBubble runs a test in a bubble, with a server and a driver.
func inBubble(t *testing.T, config Config, test func(t *testing.T, f *fakeServer, d *driver)) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{
			t: t, began: time.Now(), answer: map[string]func([]string) []any{}, fails: map[string]string{}, hangs: map[string]bool{}, other: map[string]int{}, refuses: map[string]string{},
			notices: map[string]string{}, away: map[string]bool{}, gone: map[string]bool{}, standbys: map[string]bool{}, stuck: map[string]bool{}, conns: map[*fakeConn]bool{},
		}
		if config.Addresses == nil {
			config.Addresses = []string{"a:1"}
		}
		config.User, config.Database, config.Dial = "x", "x", f.dial
		if config.Logger == nil {
			config.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
		}
		d, err := newDriver(config)
		require.NoError(t, err)
		defer func() {
			closing := time.Now()
			require.NoError(t, d.Close())
			require.LessOrEqual(t, time.Since(closing), time.Second, "Close waits for what hangs")
			synctest.Wait()
			require.Zero(t, f.open(), "Close leaves connections")
			f.drop()
			synctest.Wait()
		}()
		test(t, f, d)
	})
}

func (f *fakeServer) dial(ctx context.Context, _, address string) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dialled = append(f.dialled, address)
	if f.slow > 0 {
		f.mu.Unlock()
		time.Sleep(f.slow)
		f.mu.Lock()
	}
	if f.gone[address] {
		f.mu.Unlock()
		<-ctx.Done()
		f.mu.Lock()
		return nil, ctx.Err()
	}
	if f.away[address] {
		return nil, errors.New("away")
	}
	client, server := net.Pipe()
	c := &fakeConn{Conn: server, address: address, out: make(chan []byte, 1000), sql: map[string]string{}}
	f.conns[c] = true
	if f.stuck[address] {
		delete(f.conns, c)
		close(c.out)
		return client, nil
	}
	go f.serve(c)
	go func() {
		for b := range c.out {
			if _, err := c.Write(b); err != nil {
				return
			}
		}
	}()
	return client, nil
}

// drop ends all connections.
func (f *fakeServer) drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		f.end(c)
	}
}

// end ends a connection. The caller holds mu.
func (f *fakeServer) end(c *fakeConn) {
	if f.conns[c] {
		delete(f.conns, c)
		close(c.out)
		_ = c.Close()
	}
}

// set changes what the server does.
func (f *fakeServer) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// called returns when a function, or another statement, was called.
func (f *fakeServer) called(what string) (at []time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if c.what == what {
			at = append(at, c.at)
		}
	}
	return at
}

// dials returns the addresses that were dialled.
func (f *fakeServer) dials() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.dialled)
}

// args returns the arguments of the last call of a function.
func (f *fakeServer) args(function string) (args []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if c.what == function {
			args = c.args
		}
	}
	return args
}

// open counts the connections.
func (f *fakeServer) open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.conns)
}

// notify sends a notification.
func (f *fakeServer) notify(payload string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		if c.listens {
			c.send(&pgproto3.NotificationResponse{PID: 1, Channel: "leadership", Payload: payload})
		}
	}
}

func (c *fakeConn) send(list ...pgproto3.BackendMessage) {
	var b []byte
	for _, m := range list {
		b, _ = m.Encode(b)
	}
	c.out <- b
}
