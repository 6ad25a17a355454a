package testserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// service is what all kinds of service have in common: members, and a
// directory and ports for them.
type service struct {
	dir     string
	ports   *ports
	members []*Member
}

// startAttempts bounds how often other ports are tried when another process takes one between our choosing it and the
// server's binding it.
const startAttempts = 5

// plan says how to start a service.
type plan struct {
	name    string // of the service
	members int
	ports   int // for each member; the first is the one for clients
	reserve reserveFunc
	// equip gives each member its server and writes its configuration. The ports are those of all members, the
	// directory is for what they share. It is called again, for others, if a port was lost.
	equip func(dir string, members []*Member, ports []int) error
}

// start starts a service and waits until it is ready.
func (p plan) start(ctx context.Context) (*service, error) {
	var err error
	for range startAttempts {
		var s *service
		if s, err = p.prepare(); err != nil {
			return nil, err
		}
		if err = s.start(ctx); err == nil {
			return s, nil
		}
		err = errors.Join(err, s.Close())
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	return nil, err
}

// prepare has ports, directories and configuration made. It starts nothing.
func (p plan) prepare() (*service, error) {
	reserved, err := p.reserve(p.members * p.ports)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", p.name+"-")
	if err != nil {
		reserved.release()
		return nil, err
	}
	s := &service{dir: dir, ports: reserved}
	for i := range p.members {
		m := &Member{
			addr: loopback(reserved.numbers[p.ports*i]),
			dir:  filepath.Join(dir, strconv.Itoa(i+1)),
			sole: p.members == 1,
		}
		s.members = append(s.members, m)
		err = errors.Join(err, os.MkdirAll(m.dataDir(), 0o700))
	}
	if err = errors.Join(err, p.equip(dir, s.members, reserved.numbers)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *service) start(ctx context.Context) error {
	for _, m := range s.members {
		if err := m.launch(); err != nil {
			return err
		}
	}
	err := poll(ctx, func(ctx context.Context) (missing string, err error) {
		for _, m := range s.members {
			if err := m.failure(); err != nil {
				return "", err
			}
		}
		return s.missing(ctx), nil
	})
	if ctx.Err() != nil && err != nil {
		err = fmt.Errorf("%w%s", err, s.lastErrors())
	}
	return err
}

// Addrs returns the addresses for clients, host:port, in the order of the members.
func (s *service) Addrs() []string {
	addrs := make([]string, len(s.members))
	for i, m := range s.members {
		addrs[i] = m.addr
	}
	return addrs
}

// Member returns the member with index i, counted from 0.
func (s *service) Member(i int) *Member { return s.members[i] }

// Leader returns the index of the member that says that it leads, or of the only member. It is an error if none or
// several say so, which is normal for a moment after a fault. Leader asks only members that run and are not paused, and
// gives each five seconds to answer.
func (s *service) Leader() (int, error) {
	return leaderIn(s.roles(context.Background()))
}

// awaitLeader is Leader as soon as there is one.
func (s *service) awaitLeader(ctx context.Context) (leader int, err error) {
	err = poll(ctx, func(ctx context.Context) (missing string, _ error) {
		var none error
		if leader, none = leaderIn(s.roles(ctx)); none != nil {
			missing = none.Error()
		}
		return missing, nil
	})
	return leader, err
}

func leaderIn(roles []role) (int, error) {
	found := -1
	for i, r := range roles {
		switch {
		case r != leader:
		case found >= 0:
			return -1, fmt.Errorf("testserver: members %d and %d both say that they lead", found, i)
		default:
			found = i
		}
	}
	if found < 0 {
		return -1, errors.New("testserver: no member leads")
	}
	return found, nil
}

// Ready waits until every member that runs and is not paused serves clients,
// and exactly one of them leads.
func (s *service) Ready(ctx context.Context) error {
	return poll(ctx, func(ctx context.Context) (missing string, err error) {
		return s.missing(ctx), nil
	})
}

// missing says why the service is not ready, or nothing if it is.
func (s *service) missing(ctx context.Context) string {
	roles := s.roles(ctx)
	for i, m := range s.members {
		if roles[i] == unready && m.active() {
			return fmt.Sprintf("member %d does not serve", i)
		}
	}
	if _, err := leaderIn(roles); err != nil {
		return err.Error()
	}
	return ""
}

// roles asks all active members at once. One that is not active, or does not
// answer in time, is unready.
func (s *service) roles(ctx context.Context) []role {
	roles := make([]role, len(s.members))
	var asked sync.WaitGroup
	for i, m := range s.members {
		if m.active() {
			asked.Go(func() {
				if r, err := m.role(ctx); err == nil {
					roles[i] = r
				}
			})
		}
	}
	asked.Wait()
	return roles
}

// Close kills what still runs and removes data and logs. No member can be
// started afterwards. Closing twice does nothing.
func (s *service) Close() error {
	var errs []error
	for _, m := range s.members {
		errs = append(errs, m.close())
	}
	s.ports.release()
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}
