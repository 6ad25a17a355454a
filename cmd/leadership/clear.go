package main

import (
	"context"
	"fmt"

	"github.com/go-leadership/leadership/internal/visible"
)

type clearCmd struct {
	electionFlags
	confirmFlags
	All bool `help:"Clear all elections below the path of the URL, instead of one."`
}

// Help is the text below the flags' in --help.
func (clearCmd) Help() string {
	return `It removes the ballots of an election and the acknowledgement, of every process. What is needed for tokens to grow stays.
Programs that stand lose their ballots, and stand again with new tokens, which are higher than all before. A leader
might learn of that later than its successor leads: leadership stepdown is the safe way to change the leader.

Exit codes: 0: it is cleared; 1: nothing was done; 64: wrong usage; 69: the store did not answer: call it again; 77: it
denied.`
}

// Run implements the subcommand.
func (c *clearCmd) Run(a *app) error {
	check := c.electionFlags.check
	if c.All {
		check, c.Election = c.storeFlags.check, ""
	}
	if err := check(); err != nil {
		return err
	}
	return c.with(func(ctx context.Context, s *session) error {
		question, cleared, err := c.what(ctx, a, s)
		if err == nil {
			err = c.confirm(ctx, a, question)
		}
		if err != nil {
			return err
		}
		end := a.progress("clearing " + s.address)
		err = s.ask(ctx, func(ctx context.Context) error { return s.Store.Clear(ctx, c.Election) })
		end()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.out, "cleared %s\n", cleared)
		return err
	})
}

// what returns the sentence that says what Run is about to remove, and what it says afterwards.
func (c *clearCmd) what(ctx context.Context, a *app, s *session) (question, cleared string, err error) {
	if c.All {
		return fmt.Sprintf("All elections on %s are removed, with the ballots and the leader of each.", s.address),
			"all elections on " + s.address, nil
	}
	defer a.progress("asking " + s.address)()
	q, err := s.queueOf(ctx, c.Election)
	if err != nil {
		return "", "", err
	}
	leader := "no leader"
	if q.Leader.Revision != 0 {
		leader = "the leader " + visible.Value(q.Leader.Value)
	}
	return fmt.Sprintf("All of %v is removed: %s and %d ballots. Programs that still run stand again.", c.electionFlags, leader, len(q.Ballots)),
		fmt.Sprintf("%v: there were %s and %d ballots", c.electionFlags, leader, len(q.Ballots)), nil
}
