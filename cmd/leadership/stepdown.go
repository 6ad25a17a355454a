package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-leadership/leadership/internal/visible"
	"github.com/go-leadership/leadership/operate"
	"github.com/go-leadership/leadership/store"
)

type stepdownCmd struct {
	electionFlags
	outputFlags
	confirmFlags
}

// Help is the text below the flags' in --help.
func (stepdownCmd) Help() string {
	return `It asks the first in line to resign. The leader's work is stopped first; then its ballot goes and the next in
line leads, so that no two leaders overlap. It waits, for --timeout, until another candidate leads and has acknowledged.
If none does by then it says why. The request stands nevertheless: the leader resigns as soon as its work has stopped.
If no other candidate stands, the same one leads again, with a higher token. A leader of another program's recipe takes no
such requests, and is refused at once. So is an election that is held: there would be no leader.

Exit codes: 0: another ballot leads; 1: none does yet, or nothing was done; 64: wrong usage; 69: the store did not
answer; 70: the store takes no such requests; 77: it denied.`
}

// Run implements the subcommand.
func (c *stepdownCmd) Run(a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	return c.with(func(ctx context.Context, s *session) error {
		end := a.progress("asking " + s.address)
		q, err := s.queueOf(ctx, c.Election)
		end()
		switch {
		case err != nil:
			return err
		case len(q.Ballots) == 0:
			return &failure{code: exitNo, err: fmt.Errorf("no candidate stands in %v: there is none to step down", c.electionFlags)}
		}
		if _, held := operate.Held(q.Ballots[0].Value); held {
			return &failure{exitNo, fmt.Errorf("%v is held, and there is no leader to step down", c.electionFlags), "leadership release ends the hold"}
		}
		if q.Ballots[0].Foreign {
			return c.foreign(q)
		}
		if len(q.Ballots) > 1 && isHold(q.Ballots[1]) {
			return c.held(q)
		}
		if err := c.confirm(ctx, a, c.plan(q)); err != nil {
			return err
		}
		defer a.progress(fmt.Sprintf("waiting until %s has resigned and another leads", brief(q.Ballots[0].Value)))()
		o, err := s.operate(ctx, func(ctx context.Context) (operate.Outcome, error) {
			return operate.StepDown(ctx, s.Store, c.Election, q.Ballots[0].Token)
		})
		switch {
		case errors.Is(err, operate.ErrNotDone):
			return c.undone(q, o.After)
		case errors.Is(err, operate.ErrHeld):
			return c.held(q)
		case errors.Is(err, operate.ErrNotStanding):
			return &failure{code: exitNo, err: fmt.Errorf("%s has gone meanwhile in %v: nothing was done", visible.Value(q.Ballots[0].Value), c.electionFlags)}
		case err != nil:
			return err
		}
		return c.print(a, q, o)
	})
}

// operate does an operation, which has the time of --timeout. If that is over, the outcome has the queue as it is then.
func (s *session) operate(ctx context.Context, do func(context.Context) (operate.Outcome, error)) (o operate.Outcome, err error) {
	operating, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	o, err = do(operating)
	switch {
	case err == nil:
		return o, nil
	case ctx.Err() != nil:
		return o, context.Cause(ctx)
	case errors.Is(err, operate.ErrNotDone):
		after, failed := s.queueOf(ctx, o.Election)
		if o.After = after; failed != nil {
			return o, failed
		}
		return o, err
	case operating.Err() != nil && len(o.Behind) > 0 && len(o.After.Ballots) > 1 && !errors.Is(err, store.ErrUnknownOutcome):
		return o, &failure{
			exitNo, fmt.Errorf("%s, which was asked to step behind, still stands in election %q %v later", visible.Value(o.After.Ballots[1].Value), o.Election, s.timeout),
			"if its program hangs, end the program, or give a --timeout that is longer than the TTL",
		}
	case operating.Err() != nil:
		return o, &failure{exitUnavailable, fmt.Errorf("no answer within %v: %w", s.timeout, err), adviceUnavailable}
	}
	return o, err
}

func isHold(b store.Standing) bool {
	_, held := operate.Held(b.Value)
	return held
}

// held is the error if a hold is next in line.
func (c *stepdownCmd) held(q operate.Queue) error {
	return &failure{
		exitNo, fmt.Errorf("%v is held: if %s stepped down, there would be no leader: nothing was done", c.electionFlags, visible.Value(q.Ballots[0].Value)),
		"leadership release ends the hold; to have no leader, end the leader's program",
	}
}

// foreign is the error if the first in line takes no requests.
func (c *stepdownCmd) foreign(q operate.Queue) error {
	first := q.Ballots[0]
	does := "leads"
	if !q.Leads() {
		does = "is first in line"
	}
	return &failure{
		exitNo, fmt.Errorf("%s, which %s in %v with token %d, takes no requests to resign: it stands by another program's recipe",
			visible.Value(first.Value), does, c.electionFlags, first.Token),
		"end that program, or let it give up the leadership itself",
	}
}

// plan says what is about to happen.
func (c *stepdownCmd) plan(q operate.Queue) string {
	leader := q.Ballots[0]
	does := "leads"
	switch {
	case leader.Asked:
		does = "was asked to resign before, and has not gone,"
	case !q.Leads():
		does = "is first in line, and has not acknowledged,"
	}
	text := fmt.Sprintf("In %v, %s %s with token %d.\nIt is asked to resign. Its work stops first; then ",
		c.electionFlags, visible.Value(leader.Value), does, leader.Token)
	if len(q.Ballots) == 1 {
		return text + "there is no leader, until it stands again: no other candidate stands."
	}
	return text + fmt.Sprintf("%s leads, which is next in line.", visible.Value(q.Ballots[1].Value))
}

// undone is the error if no other ballot leads in time.
func (c *stepdownCmd) undone(before, after operate.Queue) error {
	old := before.Ballots[0]
	stands := slices.ContainsFunc(after.Ballots, func(b store.Standing) bool { return b.Token == old.Token })
	switch {
	case stands:
		return &failure{
			exitNo, fmt.Errorf("%s still stands %v after the request in %v: its work has not stopped", visible.Value(old.Value), c.Timeout, c.electionFlags),
			"it resigns when its work has stopped; if its program hangs, end the program",
		}
	case len(after.Ballots) == 0:
		return &failure{code: exitNo, err: fmt.Errorf("%s has resigned in %v, and no other candidate stands", visible.Value(old.Value), c.electionFlags)}
	}
	next := after.Ballots[0]
	if _, held := operate.Held(next.Value); held {
		return &failure{exitNo, fmt.Errorf("%s has resigned in %v, which is held: there is no leader", visible.Value(old.Value), c.electionFlags), "leadership release ends the hold"}
	}
	return &failure{
		exitNo, fmt.Errorf("%s has resigned in %v; %s is first in line with token %d, and has not acknowledged", visible.Value(old.Value), c.electionFlags, visible.Value(next.Value), next.Token),
		"leadership leader --wait=1m waits until it has",
	}
}

// print prints who leads.
func (c *stepdownCmd) print(a *app, before operate.Queue, o operate.Outcome) error {
	old, now := before.Ballots[0], o.After.Ballots[0]
	if c.JSON {
		return printJSON(a.out, struct {
			placeJSON
			Resigned tokenJSON `json:"resigned"`
			Leader   tokenJSON `json:"leader"`
			Took     float64   `json:"took_seconds"`
		}{c.place(), tokenOf(old), tokenOf(now), o.Took.Seconds()})
	}
	again := ""
	if now.Value == old.Value && !slices.ContainsFunc(before.Ballots, func(b store.Standing) bool { return b.Token == now.Token }) {
		again = " again" // it did not stand before
	}
	_, err := fmt.Fprintf(a.out, "%s leads%s with token %d, %v after the request\n",
		a.outStyle.paint(green, visible.Value(now.Value)), again, now.Token, o.Took.Round(time.Millisecond))
	return err
}

// tokenJSON is a ballot in JSON.
type tokenJSON struct {
	Token uint64 `json:"token,string"` // text, since JavaScript rounds above 2^53
	visible.JSON
}

func tokenOf(b store.Standing) tokenJSON { return tokenJSON{b.Token, visible.InJSON(b.Value)} }
