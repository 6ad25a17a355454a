package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/visible"
	"github.com/go-leadership/leadership/operate"
	"github.com/go-leadership/leadership/store"
)

type watchCmd struct {
	electionFlags
	outputFlags
	Exec *string `placeholder:"COMMAND" help:"Run this shell command at the start and at each change, with the leader in its environment."`
}

// Help is the text below the flags' in --help.
func (watchCmd) Help() string {
	return `It prints a line for the present leader, and one for each change, until it is ended by a signal. Changes that
come faster than they can be printed are left out; the latest is always printed. If the election is held when its leader
goes, the line has the reason. It survives outages of the store,
and tells of them on stderr.

The command of --exec finds the leader's value in LEADERSHIP_LEADER, which is empty if there is none, and
LEADERSHIP_REVISION, which is 0 if there is none and grows with each leader. One command runs at a time; when it has
ended, the next one is told of the latest leader. With --json, what the command prints goes to stderr.

Exit codes: 0: ended by SIGTERM, after the command has ended; 64: wrong usage; 69: the store did not answer at the start; 77:
it denied; 130: ended by Ctrl-C.`
}

// Run implements the subcommand.
func (c *watchCmd) Run(a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	if c.Exec != nil && strings.TrimSpace(*c.Exec) == "" {
		return &failure{code: exitUsage, err: errors.New("--exec is empty: it would run nothing"), advice: "see leadership watch --help"}
	}
	if c.Exec != nil {
		a.warnOfClearPassword(c.Store)
	}
	return c.with(func(ctx context.Context, s *session) error {
		end := a.progress("asking " + s.address)
		err := s.ask(ctx, func(ctx context.Context) error { // a follower would wait for ever
			_, err := s.Observe(ctx, c.Election, nil)
			return err
		})
		end()
		if err != nil {
			return err
		}
		return c.follow(ctx, a, s)
	})
}

// follow prints the changes until ctx ends.
func (c *watchCmd) follow(ctx context.Context, a *app, s *session) error {
	f, err := leadership.NewFollower(s, c.Election, &leadership.FollowerOptions{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer func() { f.Stop(); <-f.Done() }()
	f.Start()
	watching, stop := context.WithCancel(ctx)
	command := c.command(watching, a)
	silence := make(chan struct{})
	go func() { defer close(silence); a.tellSilence(watching, f, s.address) }()
	defer func() { stop(); <-silence; command.end() }()
	for leader := range f.Changes(ctx) {
		command.run(leader)
		hold := ""
		if leader.Revision == 0 {
			hold = s.holdOf(ctx, c.Election)
		}
		if err := c.print(a, leader, hold); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return toldToEnd(context.Cause(ctx))
	}
	return f.Err()
}

// holdOf returns the reason of a hold that is first in line, or "": there is none, or the store does not say.
func (s *session) holdOf(ctx context.Context, election string) (reason string) {
	q, err := s.queueOf(ctx, election)
	if err == nil && len(q.Ballots) > 0 {
		reason, _ = operate.Held(q.Ballots[0].Value)
	}
	return reason
}

// print prints a line for a change. hold is the reason why there is no leader, if that is a hold.
func (c *watchCmd) print(a *app, leader store.Leader, hold string) error {
	now := time.Now()
	if c.JSON {
		return printJSON(a.out, struct {
			Time time.Time `json:"time"`
			placeJSON
			Leader *leaderJSON `json:"leader"`
			Hold   string      `json:"hold,omitempty"`
		}{now, c.place(), leaderOf(leader), hold})
	}
	text := a.outStyle.paint(yellow, "no leader")
	switch {
	case leader.Revision != 0:
		text = "leader  " + a.outStyle.paint(green, visible.Value(leader.Value))
	case hold != "":
		text += ", held: " + visible.Value(hold)
	}
	_, err := fmt.Fprintf(a.out, "%s  %s\n", now.Format("15:04:05.000"), text)
	return err
}

// tellSilence prints when the store has not answered for a TTL, and when it answers again, until ctx ends.
func (a *app) tellSilence(ctx context.Context, f *leadership.Follower, address string) {
	ticks := time.NewTicker(200 * time.Millisecond)
	defer ticks.Stop()
	silent := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		asOf, fresh := f.AsOf(), f.Fresh()
		switch {
		case asOf.IsZero(): // it has just started
		case fresh && silent:
			silent = false
			a.warnf("%s answers again", address)
		case !fresh && !silent:
			silent = true
			a.warnf("%s has been silent since %s, still trying", address, asOf.Format("15:04:05"))
		}
	}
}
