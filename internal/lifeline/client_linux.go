package lifeline

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// patience is how long a session waits for the lifeline's answer, and each message for room in the socket.
const patience = 100 * time.Millisecond

// Client tells a lifeline of the sessions of one store. If the lifeline has gone, the Client looks for the next one, at
// once and then once a TTL, and tells that of all sessions.
//
// Its goroutines, run and write, begin with the first Add and end with Close.
type Client struct {
	name    string // of the store, in logs
	place   string
	service func() (Service, error) // reads files, which may change
	ttl     time.Duration
	log     *slog.Logger
	pidfd   *os.File // of this process
	reading *os.File // the pipe, for lifelines
	writing *os.File // the pipe, which ends with this process
	pipe    identity

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	gone   chan struct{} // closed when run has ended
	once   sync.Once     // starts the goroutines
	notes  chan func()   // of the log, for write: the program's handler may hang
	wrote  chan struct{} // closed when write has ended

	mu       sync.Mutex
	conn     *net.UnixConn           // guarded by mu, as are all below: nil while there is no lifeline
	sessions map[string]*handed      // by id
	asking   map[string]chan<- error // by id: who waits for the answer
	guarded  bool                    // File was called
	closed   bool
}

// handed is a session that the lifeline is to know of.
type handed struct {
	*entry
	warned bool // its Add was not answered in time
}

// Check returns why a place can't be used, or nil: the kernel has to give pidfds, too.
func Check(place string) error {
	switch {
	case place == Self && os.Getenv(ParentVariable) == "" && !mainCalled:
		return errors.New("the program has to call lifeline.Main at the start of its main function, or to be started by leadership lifeline -- PROGRAM")
	case place == Self && os.Getenv(ParentVariable) == "" && os.Getpid() == 1:
		return errors.New("process 1 of a container takes all others along when it dies: start it by leadership lifeline -- PROGRAM")
	case place != Self && !filepath.IsAbs(place) && !strings.HasPrefix(place, "@"):
		return fmt.Errorf("neither %q nor an absolute path", Self)
	}
	pidfd, err := openPidfd()
	if err != nil {
		return err
	}
	return pidfd.Close()
}

// Open returns a Client for the lifeline at a place, which is "self" or the path of a socket. It sends nothing. The TTL
// is that of the sessions, and service says how to reach the store's service whenever a session is added.
func Open(place, name string, ttl time.Duration, service func() (Service, error), log *slog.Logger) (*Client, error) {
	if err := Check(place); err != nil {
		return nil, err
	}
	pidfd, err := openPidfd()
	if err != nil {
		return nil, err
	}
	c := &Client{
		name: name, place: place, service: service, ttl: ttl, log: log, pidfd: pidfd,
		gone: make(chan struct{}), notes: make(chan func(), 16), wrote: make(chan struct{}), sessions: map[string]*handed{}, asking: map[string]chan<- error{},
	}
	if c.reading, c.writing, err = os.Pipe(); err != nil {
		_ = c.pidfd.Close()
		return nil, err
	}
	if c.pipe, err = identify(c.reading); err != nil {
		return nil, errors.Join(err, c.pidfd.Close(), c.reading.Close(), c.writing.Close())
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// Add tells the lifeline of a session. It waits for the answer, but not for long: without it the session goes on, and
// ends after its TTL if the process dies.
func (c *Client) Add(id string, handover []byte) {
	c.once.Do(func() { go c.run(); go c.write() })
	service, err := c.service()
	if err != nil {
		c.note(slog.LevelWarn, "a session is not told to the lifeline: if this process dies, the session ends after its TTL", "error", err)
		return
	}
	answer := make(chan error, 1)
	session := &handed{entry: &entry{id, handover, service}}
	late := time.NewTimer(patience) // for the message and the answer together
	defer late.Stop()
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.sessions[id], c.asking[id] = session, answer
	c.tell(frame{Add: session.entry})
	c.mu.Unlock()
	select {
	case err := <-answer:
		c.answered(err)
	case <-late.C:
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.asking[id] == nil { // it has just come
			c.answered(<-answer)
			return
		}
		session.warned = true
		delete(c.asking, id)
		level := slog.LevelWarn
		if c.conn == nil { // it is being started or dialled: run warns if that fails
			level = slog.LevelDebug
		}
		c.note(level, "the lifeline has not answered: until it does, a session ends after its TTL if this process dies", "lifeline", c.place)
	}
}

func (c *Client) answered(err error) {
	if err != nil {
		c.refused(err)
		return
	}
	c.note(slog.LevelDebug, "the lifeline has answered", "lifeline", c.place)
}

// Drop tells the lifeline that a session has ended, or that nothing is known of it.
func (c *Client) Drop(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sessions[id] != nil {
		delete(c.sessions, id)
		c.tell(frame{Drop: id})
	}
}

// tell sends a frame, if there is a lifeline. One that does not read is left. The caller holds mu.
func (c *Client) tell(f frame) {
	if c.conn == nil {
		return
	}
	if err := writeFrame(ready{c.conn}, f); err != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// ready writes what the socket has room for, and waits for room for the rest, but not for long. A deadline from before the
// first write might pass while this process stands still, as on a busy machine, and no lifeline would be told until a TTL later.
type ready struct{ *net.UnixConn }

// Write implements io.Writer.
func (r ready) Write(b []byte) (n int, err error) {
	err = control(r.UnixConn, func(fd int) (err error) {
		n, err = syscall.SendmsgN(fd, b, nil, nil, syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL)
		return err
	})
	n = max(n, 0)
	if n == len(b) || err != nil && !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR) {
		return n, err
	}
	if err := r.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return n, err
	}
	rest, err := r.UnixConn.Write(b[n:])
	return n + rest, err
}

// File returns a copy of the writing end of the pipe. As long as some process has it, no session is ended by a
// lifeline.
func (c *Client) File() (*os.File, error) {
	file, err := duplicate(c.writing, "lifeline")
	if err != nil {
		return nil, fmt.Errorf("copy the lifeline's pipe: %w", err)
	}
	if err := c.isPipe(file); err != nil {
		_ = file.Close()
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.guarded = true
	c.tell(frame{Guarded: true})
	return file, nil
}

// isPipe returns an error if a file is not the pipe: after a mistake of the program, another file might have the pipe's
// descriptor.
func (c *Client) isPipe(file *os.File) error {
	id, err := identify(file)
	if err == nil && id != c.pipe {
		err = errors.New("the program has closed the lifeline's pipe, and opened another file with its number")
	}
	return err
}

// Close ends the Client. All sessions have been dropped.
func (c *Client) Close() {
	c.once.Do(func() { close(c.gone); close(c.wrote) })
	c.cancel()
	c.mu.Lock()
	c.closed = true
	if c.conn != nil {
		_ = c.conn.Close()
	}
	c.mu.Unlock()
	<-c.gone
	<-c.wrote
	_ = c.pidfd.Close()
	_ = c.reading.Close()
	_ = c.writing.Close()
}

// note logs a line soon. It does not block, and may be called under mu. If too many lines wait, it drops the line.
func (c *Client) note(level slog.Level, text string, args ...any) {
	select {
	case c.notes <- func() { c.log.Log(context.Background(), level, text, append([]any{"store", c.name}, args...)...) }:
	default:
	}
}

// write writes the log until run has ended.
func (c *Client) write() {
	defer close(c.wrote)
	for {
		select {
		case note := <-c.notes:
			note()
		case <-c.gone:
			for len(c.notes) > 0 {
				(<-c.notes)()
			}
			return
		}
	}
}

// run keeps a connection to a lifeline.
func (c *Client) run() {
	defer close(c.gone)
	failing := false
	for c.ctx.Err() == nil {
		tried := time.Now()
		conn, err := c.connect()
		if err == nil {
			if failing {
				c.note(slog.LevelInfo, "there is a lifeline again", "lifeline", c.place)
			}
			failing = false
			err = c.hear(conn)
		}
		if c.ctx.Err() != nil {
			return
		}
		if !failing {
			failing = true
			c.note(slog.LevelWarn, "there is no lifeline: sessions end after their TTL if this process dies", "lifeline", c.place, "error", err)
		}
		timer := time.NewTimer(c.ttl - time.Since(tried))
		select {
		case <-timer.C:
		case <-c.ctx.Done():
			timer.Stop()
		}
	}
}

// connect connects to a lifeline, and tells it of all sessions.
func (c *Client) connect() (*net.UnixConn, error) {
	dial := net.Dialer{Timeout: 5 * time.Second}
	address, err := addressOf(c.place)
	if err != nil {
		return nil, err
	}
	dialled, err := dial.DialContext(c.ctx, "unix", address)
	if err != nil {
		return nil, err
	}
	conn := dialled.(*net.UnixConn)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.greet(conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	c.conn = conn
	if c.guarded {
		c.tell(frame{Guarded: true})
	}
	for _, session := range c.sessions {
		c.tell(frame{Add: session.entry})
	}
	if c.closed {
		_ = conn.Close()
	}
	return conn, nil
}

// greet sends the descriptors, to a process of the same user or of root: another one might want the password. A new connection
// has room for them.
func (c *Client) greet(conn *net.UnixConn) error {
	user, err := peer(conn)
	if err != nil {
		return err
	}
	if user.Uid != 0 && user.Uid != uint32(os.Geteuid()) {
		return fmt.Errorf("the lifeline runs as uid %d, which is neither root nor this program's", user.Uid)
	}
	if err := c.isPipe(c.reading); err != nil {
		return err
	}
	return sendFiles(conn, c.pidfd, c.reading)
}

// hear takes the answers, until the lifeline has gone.
func (c *Client) hear(conn *net.UnixConn) error {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		_ = conn.Close()
		c.conn = nil
	}()
	in := bufio.NewReader(conn)
	for {
		f, err := readFrame(in)
		if err != nil {
			return fmt.Errorf("it has gone: %w", err)
		}
		c.take(f)
	}
}

func (c *Client) take(f frame) {
	var failed error
	id := f.Done
	if f.Refused != "" {
		id, failed = f.Refused, errors.New(f.Why)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if answer := c.asking[id]; answer != nil {
		delete(c.asking, id)
		answer <- failed
		return
	}
	switch session := c.sessions[id]; {
	case session == nil:
	case failed != nil:
		c.refused(failed)
	case session.warned:
		session.warned = false
		c.note(slog.LevelInfo, "the lifeline has answered", "lifeline", c.place)
	}
}

func (c *Client) refused(err error) {
	c.note(slog.LevelWarn, "the lifeline refuses a session: if this process dies, the session ends after its TTL", "error", err)
}
