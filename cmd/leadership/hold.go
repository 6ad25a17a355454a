package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"time"

	"github.com/go-leadership/leadership/internal/visible"
	"github.com/go-leadership/leadership/operate"
	"github.com/go-leadership/leadership/store"
)

type holdCmd struct {
	electionFlags
	confirmFlags

	Reason string         `required:"" placeholder:"TEXT" help:"Why: shown to all who list the ballots, with your name and this host's."`
	For    *time.Duration `placeholder:"DURATION" help:"Release the hold after this time. Default: when the command is interrupted, or leadership release is called."`
}

// Help is the text below the flags' in --help.
func (holdCmd) Help() string {
	return `While an election is held, no candidate begins a term. The present leader stays; when it goes there is no leader.
Candidates of every version honour a hold, since it is a ballot in their queue, which never acknowledges. It ends with
this command: on SIGINT or SIGTERM, after --for, or when "leadership release" is called from any machine. The order of
those who wait is not kept over a hold.

It is for planned work, and no safety device: if this command loses its session, another candidate may lead.

Exit codes: 0: the hold was released; 1: nothing was done; 64: wrong usage; 69: the store did not answer; 75: the hold was
lost; 77: the store denied.`
}

// Run implements the subcommand.
func (c *holdCmd) Run(a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	if value(c.For, 1) <= 0 {
		return &failure{code: exitUsage, err: fmt.Errorf("--for=%v is not more than zero", *c.For), advice: "see leadership hold --help"}
	}
	return c.with(func(ctx context.Context, s *session) error {
		plan := fmt.Sprintf("In %v, no candidate begins a term while this command runs.\nThe present leader stays; when it goes there is no leader.", c.electionFlags)
		if err := c.confirm(ctx, a, plan); err != nil {
			return err
		}
		var h *operate.Hold
		end := a.progress("asking " + s.address)
		asking := &session{s.Store, s.timeout + s.TTL(), s.address} // NewHold waits for a TTL for those that hang
		err := asking.ask(ctx, func(ctx context.Context) (err error) {
			h, err = operate.NewHold(ctx, s.Store, c.Election, c.Reason+" ("+who()+")")
			return err
		})
		end()
		switch {
		case errors.Is(err, operate.ErrHeld):
			return &failure{exitNo, fmt.Errorf("%v is held already: nothing was done", c.electionFlags), "leadership ballots shows by whom; leadership release ends it"}
		case errors.Is(err, operate.ErrForeign):
			return &failure{exitNo, fmt.Errorf("a candidate by another program's recipe waits in %v, and takes no requests: nothing was done", c.electionFlags), "end that program first"}
		case err != nil:
			return err
		}
		return c.keep(ctx, a, s, h)
	})
}

// keep holds the election until the hold ends.
func (c *holdCmd) keep(ctx context.Context, a *app, s *session, h *operate.Hold) error {
	fmt.Fprintf(a.errs, "%v is held\n", c.electionFlags)
	if ahead := h.Ahead(); len(ahead) > 0 {
		a.warnf("still ahead of the hold, and might lead: %s; if its program hangs, end the program", names(ahead))
	}
	var over <-chan time.Time
	if c.For != nil {
		timer := time.NewTimer(*c.For)
		defer timer.Stop()
		over = timer.C
	}
	for first := h.First(); ; {
		select {
		case <-first:
			fmt.Fprintf(a.errs, "the leader has gone: there is none in %v while it is held\n", c.electionFlags)
			first = nil
			continue
		case <-h.Ended():
		case <-over:
		case <-ctx.Done(): // a signal ends the hold
		}
		break
	}
	releasing, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	if err := h.Release(releasing); err != nil {
		return &failure{exitUnavailable, fmt.Errorf("can't confirm that the hold in %v has ended: %w", c.electionFlags, err), "it ends by itself when its session has expired"}
	}
	if err := h.Err(); errors.Is(err, store.ErrLost) {
		return &failure{exitLost, fmt.Errorf("the hold in %v was lost: another candidate may lead: %w", c.electionFlags, err), "run the command again"}
	}
	fmt.Fprintf(a.errs, "%v is not held any more\n", c.electionFlags)
	return nil
}

// who names the user and the host.
func who() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}

type releaseCmd struct {
	electionFlags
	confirmFlags
}

// Help is the text below the flags' in --help.
func (releaseCmd) Help() string {
	return `It asks first, unless --yes is given. It asks the command that holds the election to release it, and waits, for --timeout, until the hold has gone.

Exit codes: 0: the election is not held any more; 1: it was not held, or still is; 64: wrong usage; 69: the store did not
answer; 70: the store takes no such requests; 77: it denied.`
}

// Run implements the subcommand.
func (c *releaseCmd) Run(a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	return c.with(func(ctx context.Context, s *session) error {
		end := a.progress("asking " + s.address)
		q, err := s.queueOf(ctx, c.Election)
		end()
		if err != nil {
			return err
		}
		at := slices.IndexFunc(q.Ballots, isHold)
		if at < 0 {
			return c.notHeld()
		}
		reason, _ := operate.Held(q.Ballots[at].Value)
		if err := c.confirm(ctx, a, fmt.Sprintf("%v is held: %s.\nThe hold ends, and a candidate may lead.", c.electionFlags, visible.Value(reason))); err != nil {
			return err
		}
		defer a.progress("asking " + s.address)()
		err = s.ask(ctx, func(ctx context.Context) (err error) {
			reason, err = operate.Release(ctx, s.Store, c.Election)
			return err
		})
		switch {
		case errors.Is(err, operate.ErrNotStanding):
			return c.notHeld()
		case err != nil:
			return err
		}
		_, err = fmt.Fprintf(a.out, "released: %s\n", visible.Value(reason))
		return err
	})
}

func (c *releaseCmd) notHeld() error {
	return &failure{code: exitNo, err: fmt.Errorf("%v is not held", c.electionFlags)}
}
