package file

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// Acknowledge implements engine.Session. The number of the acknowledgement is reserved first, and then the entry with that
// number points to the value, in the directory of the ballot. It is of no effect if the ballot does not stand.
func (s *session) Acknowledge(ctx context.Context, e engine.Entry, value string) (revision uint64, err error) {
	c, ok := e.Private.(*cast)
	if !ok {
		return 0, engine.ErrGone
	}
	d, p := s.driver, s.driver.dirOf(c.election)
	return ask(ctx, d, func() (uint64, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if ctx.Err() != nil { // its caller has left, and might have acknowledged another value meanwhile
			return 0, engine.Answered(fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx)))
		}
		number, before, err := s.reserve(p)
		file := p.ballot(c.name) + "/v" + strconv.FormatUint(number, 10)
		target := "_b" + strings.TrimPrefix(file, p.ballots())
		if err == nil {
			err = d.makeFile(file, value)
		}
		if err == nil {
			err = d.link("../"+target, numberIn(p.acks(), number))
		}
		if err != nil { // nothing has been acknowledged: what was made for it is not left behind
			_ = d.ops.unlink(file)
			if number > 0 {
				_ = d.ops.unlink(numberIn(p.acks(), number))
			}
			return 0, s.why(p, c, err)
		}
		latest, err := d.show(p, target)
		if err != nil && !missing(err) {
			return 0, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
		}
		if latest != number { // followers might have seen it while the ballot stood
			return 0, s.why(p, c, engine.ErrGone)
		}
		for _, n := range before[:max(len(before)-1, 0)] { // the highest stays, so that a listing is never empty
			_ = d.ops.unlink(numberIn(p.acks(), n))
		}
		if c.shown != "" {
			_ = d.ops.unlink(c.shown)
		}
		c.shown = file
		return number, nil
	})
}

// reserve takes a number for an acknowledgement.
func (s *session) reserve(p electionDir) (number uint64, before []uint64, err error) {
	d := s.driver
	if err := s.stands(); err != nil {
		return 0, nil, err
	}
	for void := true; void && err == nil; {
		err = d.made(func() error { return d.makeElection(p) }, func() (err error) {
			number, before, void, err = d.numbers.take(p.acks(), "-")
			return err
		})
	}
	return number, before, err
}

// show makes the link show an acknowledgement, and returns the number of the latest one that stands. This process might
// have been stopped before it set the link, and then have set it to an old value. So it reads the latest one after that,
// and shows it if it is another.
func (d *driver) show(p electionDir, target string) (latest uint64, err error) {
	for {
		if err := d.link(target, p.leader()); err != nil {
			return 0, err
		}
		number, now, err := p.acknowledged(d, func(name, _ string) error { return p.gone(d, name) })
		if number == 0 || now == target || err != nil {
			return number, err
		}
		target = now
	}
}

// why returns the reason for an error: the session or the ballot might be gone.
func (s *session) why(p electionDir, c *cast, err error) error {
	if !missing(err) && !errors.Is(err, engine.ErrGone) {
		return err
	}
	if _, over, err := s.driver.alive(s.id); over && err == nil {
		_ = s.remove()
		return engine.ErrOver
	}
	if there, err := s.driver.ops.exists(p.ballot(c.name)); there || err != nil {
		return engine.Answered(fmt.Errorf("%w: the directory of the election changes", store.ErrUnavailable))
	}
	return engine.ErrGone
}

// acknowledged returns the number of the latest acknowledgement whose ballot stands, and its value's path below the election;
// the number is 0 if there is none. look returns ErrGone if the ballot does not stand. If an acknowledgement, or its value,
// was removed after the listing it has a successor: then they are listed again.
func (p electionDir) acknowledged(d *driver, look func(name, file string) error) (number uint64, value string, err error) {
	for range 100 {
		numbers, err := p.numbers(d, p.acks())
		if err != nil {
			return 0, "", err
		}
		removed := false
		for _, n := range slices.Backward(numbers) {
			name, file, err := pointed(d, numberIn(p.acks(), n))
			if err == nil && file == "" {
				continue
			}
			if err == nil {
				err = look(name, file)
			}
			switch {
			case err == nil:
				return n, "_b/" + name + "/" + file, nil
			case missing(err):
				removed = true
			case !errors.Is(err, engine.ErrGone):
				return 0, "", err
			}
		}
		if !removed {
			return 0, "", nil
		}
	}
	return 0, "", engine.Answered(fmt.Errorf("%w: the leader changes too fast", store.ErrUnavailable))
}

// WatchLeader implements engine.Driver. It needs no permission to write.
func (d *driver) WatchLeader(ctx context.Context, election string, tell engine.Tell) (engine.Watch, error) {
	p, w := d.dirOf(election), d.newWatch(tell)
	return d.watching(ctx, w, func() (engine.State, error) {
		if exists, err := w.path(p.acks(), syscall.IN_MOVED_TO); !exists || err != nil {
			return engine.State{}, err
		}
		var value string
		number, _, err := p.acknowledged(d, func(name, file string) error {
			err := w.dir(p.ballot(name), syscall.IN_MOVE_SELF|syscall.IN_DELETE_SELF, "", w.changed)
			if missing(err) {
				return engine.ErrGone
			}
			if err != nil {
				return err
			}
			over, err := w.session(p, name)
			switch {
			case err != nil:
				return err
			case over:
				return engine.ErrGone
			}
			value, err = d.ops.read(p.ballot(name) + "/" + file)
			return err
		})
		if number == 0 || err != nil {
			return engine.State{}, err
		}
		return engine.State{Leader: store.Leader{Value: value, Revision: number}}, nil
	})
}
