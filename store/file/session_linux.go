package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// session implements engine.Session. It is a directory with one file, which its owner has locked, and whose name is the
// deadline. It ends when the lock is free, the file is removed, or the deadline has passed.
type session struct {
	driver *driver
	id     string
	opened store.Instant
	ended  chan struct{} // closed when the session is known to be over

	slots [engine.Slots]slot

	mu       sync.Mutex
	deadline time.Duration // guarded by mu, as are all below
	fd       int           // of the file; -1 if there is none yet
	over     bool          // no file is there any more
}

// deadlineName is the name of a session's file.
func deadlineName(deadline time.Duration) string { return fmt.Sprintf("%016x", int64(deadline)) }

// parseDeadline parses the name of a session's file.
func parseDeadline(name string) (time.Duration, error) {
	n, err := strconv.ParseInt(name, 16, 64)
	if err == nil && deadlineName(time.Duration(n)) != name {
		err = strconv.ErrSyntax
	}
	return time.Duration(n), err
}

// Open implements engine.Driver. The session appears with its lock held.
func (d *driver) Open(ctx context.Context) (engine.Session, engine.Proof, error) {
	s := &session{driver: d, id: unique(), fd: -1, ended: make(chan struct{})}
	s.opened = store.Now()
	err := do(ctx, d, func() error {
		if err := d.make(); err != nil {
			return err
		}
		return d.made(d.make, func() error {
			if err := d.numbers.begin(); err != nil {
				return err
			}
			return s.make()
		})
	})
	if err != nil {
		if ctx.Err() == nil {
			err = engine.FailFast(err)
		}
		d.life.Go(func() { _ = s.remove() }) // it might still be opened
		return nil, engine.Proof{}, err
	}
	d.add(s)
	d.life.Go(d.tidy)
	return s, d.proof(s.opened), nil
}

func (d *driver) proof(sent store.Instant) engine.Proof {
	return engine.Proof{Sent: sent, Valid: d.config.TTL - d.config.Grace}
}

// make makes the session's directory and file.
func (s *session) make() error {
	d := s.driver
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return engine.ErrOver // its caller has left
	}
	fd, deadline := -1, d.clock()+d.config.TTL
	err := d.inOneStep(d.sessionDir(s.id), func(dir string) (err error) {
		file := dir + "/" + deadlineName(deadline)
		if err = d.ops.mkdir(dir); err == nil {
			fd, err = d.ops.lock(file)
		}
		if err == nil {
			err = d.allow(dir, forDirs)
		}
		if err == nil {
			err = d.allow(file, forFiles)
		}
		return err
	})
	switch {
	case err == nil:
		s.deadline, s.fd = deadline, fd
	case fd >= 0:
		d.ops.close(fd)
	}
	return err
}

// ID implements engine.Session.
func (s *session) ID() string { return s.id }

// SessionFile implements engine.ProcessBound. The lock is that of the open file, which the copy shares.
func (s *session) SessionFile() (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil, engine.ErrOver
	}
	fd, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(s.fd), syscall.F_DUPFD_CLOEXEC, 0)
	if errno != 0 {
		return nil, failed("dup", s.driver.sessionDir(s.id), errno)
	}
	return os.NewFile(fd, "session"), nil
}

// Keep implements engine.Session: it renews the session each quarter of the TTL, and a twentieth after a renewal that has
// failed. It renews it at once if the directory was moved away, which then fails. Its watch tells if a peer has ended the
// session.
func (s *session) Keep(ctx context.Context, renewed func(engine.Proof)) error {
	d := s.driver
	w := d.newWatch(func(engine.News) {})
	defer w.stop()
	moved := make(chan struct{}, 1) // has room for one: a renewal is due
	ring := func(uint32) {
		select {
		case moved <- struct{}{}:
		default:
		}
	}
	err := do(ctx, d, func() error {
		w.moves(d.root(), ring)
		_, err := d.join(w, s.id, func() {})
		if !d.present() { // it was moved before
			ring(0)
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		d.warn("can't watch the session, so that its end is noticed late", err)
	}
	warned := false
	for wait := s.untilNext(s.opened); ; {
		s.pause(ctx, wait, moved)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := d.asked.hung(); err != nil {
			d.warn("the session is not renewed while a system call hangs, and ends at its deadline", err)
		}
		sent := store.Now()
		err := do(ctx, d, s.renew)
		switch {
		case err == nil:
			renewed(d.proof(sent))
			wait = s.untilNext(sent)
			continue
		case errors.Is(err, engine.ErrOver):
			return nil
		case ctx.Err() == nil && !warned:
			warned = true
			d.warn("can't renew the session, which ends at its deadline", err)
		}
		wait = d.config.TTL / 20
	}
}

// untilNext returns how long to wait for the next renewal.
func (s *session) untilNext(sent store.Instant) time.Duration {
	return s.driver.config.TTL/4 - time.Since(sent.Time())
}

// pause waits for some time, or until ctx or the session ends, or the directory is moved.
func (s *session) pause(ctx context.Context, d time.Duration, moved <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-moved:
	case <-s.ended:
	case <-ctx.Done():
	}
}

// renew renews the session by one rename, which fails if a peer has removed the file. A renewal at or after the
// deadline does not count: processes that can't remove the file might count the session as ended by the clock.
func (s *session) renew() error {
	d := s.driver
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return engine.ErrOver
	}
	dir := d.sessionDir(s.id) + "/"
	now := d.clock()
	if now >= s.deadline {
		s.removeLocked()
		return engine.ErrOver
	}
	next := now + d.config.TTL
	err := d.ops.rename(dir+deadlineName(s.deadline), dir+deadlineName(next))
	if missing(err) {
		s.removeLocked()
		return engine.ErrOver
	}
	if err != nil {
		return err
	}
	last := s.deadline
	s.deadline = next
	if d.clock() >= last {
		s.removeLocked()
		return engine.ErrOver
	}
	return nil
}

// remove ends the session.
func (s *session) remove() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.removeLocked()
}

// removeLocked is remove. The caller holds mu. The file goes first: with it all ballots of the session do, at once.
func (s *session) removeLocked() error {
	if s.over {
		return nil
	}
	d := s.driver
	s.over = true
	close(s.ended)
	if s.fd < 0 {
		return nil
	}
	dir := d.sessionDir(s.id)
	err := d.ops.unlink(dir + "/" + deadlineName(s.deadline))
	d.ops.close(s.fd) // and with it the lock
	if missing(err) {
		err = nil
	}
	_ = d.ops.rmdir(dir)
	return err
}

// End implements engine.Session. The leader's ballot is withdrawn, so that the link shows it no more. What is left of others is
// removed by those who come upon it.
func (s *session) End(ctx context.Context, led []engine.Removal) error {
	_, err := askNow(ctx, s.driver, func() (struct{}, error) {
		err := s.remove()
		for _, r := range led {
			election, _, name := splitKey(r.Key)
			s.driver.dirOf(election).retire(s.driver, name)
		}
		return struct{}{}, err
	})
	return err
}

// isOver reports whether the session is known to be over. It does not block.
func (s *session) isOver() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// stands returns an error if the session is known to be over, also by the clock: the process might have been stopped.
func (s *session) stands() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over && s.driver.clock() >= s.deadline {
		_ = s.removeLocked()
	}
	if s.over {
		return engine.ErrOver
	}
	return nil
}

// alive checks a session, and returns its deadline, or that it is over. It is over if the lock is free: its process has
// ended. It is also over if its deadline has passed: then the file is removed, so that its owner learns of it. The
// removal fails if the session was renewed, since the file then has another name.
func (d *driver) alive(id string) (deadline time.Duration, over bool, err error) {
	dir := d.sessionDir(id)
	for empty := 0; empty < 100; {
		now := d.clock() // before the file is read: a name that is seen after its own deadline was not renewed in time
		names, err := d.ops.list(dir)
		if missing(err) {
			return 0, true, nil
		}
		if err != nil {
			return 0, false, err
		}
		file := ""
		for _, name := range names { // a rename might show both
			if _, err := parseDeadline(name); err == nil {
				file = max(file, name)
			}
		}
		if file == "" { // a rename might hide both: an empty directory can be removed
			empty++
			for _, name := range names { // not ours
				_ = d.ops.unlink(dir + "/" + name)
			}
			err := d.ops.rmdir(dir)
			if err == nil || missing(err) || denied(err) && empty > 3 {
				return 0, true, nil
			}
			if !taken(err) && !denied(err) {
				return 0, false, err
			}
			continue
		}
		deadline, _ = parseDeadline(file)
		free, err := d.ops.free(dir + "/" + file)
		switch {
		case missing(err):
			continue
		case err != nil && !denied(err):
			return 0, false, err
		case !free && now < deadline:
			return deadline, false, nil
		}
		err = d.ops.unlink(dir + "/" + file)
		switch {
		case missing(err):
			continue
		case err != nil && !denied(err): // a process that may only read relies on the lock and the clock
			return 0, false, err
		}
		_ = d.ops.rmdir(dir)
		return 0, true, nil
	}
	return 0, false, fmt.Errorf("%w: %s can't be read or removed", store.ErrUnavailable, dir)
}
