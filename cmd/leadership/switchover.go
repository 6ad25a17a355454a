package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-leadership/leadership/internal/visible"
	"github.com/go-leadership/leadership/operate"
	"github.com/go-leadership/leadership/store"
)

type switchoverCmd struct {
	electionFlags
	outputFlags
	confirmFlags

	To      string `xor:"to" required:"" placeholder:"VALUE" help:"The value of the candidate that is to lead."`
	ToToken uint64 `xor:"to" required:"" placeholder:"N" help:"The token of its ballot, if several candidates have one value."`
}

// Help is the text below the flags' in --help.
func (switchoverCmd) Help() string {
	return `It asks the candidates that wait ahead of the one you name to stand again behind it. When that one is next in
line, it asks the leader to resign. The leader's work is stopped first; then its ballot goes and the named one leads, so
that no two leaders overlap, and no other leads in between. It waits, for --timeout, until the named one has acknowledged.

Nothing is stored. If the command is interrupted before the leader is asked, only the order of those who wait has changed.

Exit codes: 0: it leads; 1: it does not yet, or nothing was done; 64: wrong usage, or several candidates have the value;
69: the store did not answer; 70: the store takes no requests to resign; 77: it denied.`
}

// Run implements the subcommand.
func (c *switchoverCmd) Run(a *app) error {
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
		at, err := c.find(q)
		if err != nil {
			return err
		}
		target := q.Ballots[at]
		if at > 0 {
			if err := c.confirm(ctx, a, c.plan(q, at)); err != nil {
				return err
			}
		}
		defer a.progress(fmt.Sprintf("waiting until %s leads", brief(target.Value)))()
		o, err := s.operate(ctx, func(ctx context.Context) (operate.Outcome, error) {
			return operate.SwitchOver(ctx, s.Store, c.Election, target.Token)
		})
		if err != nil {
			return c.explain(err, target, o)
		}
		return c.print(a, target, o)
	})
}

// find returns the position of the candidate that is to lead, and checks that all ahead of it take requests.
func (c *switchoverCmd) find(q operate.Queue) (at int, err error) {
	var found []int
	for i, b := range q.Ballots {
		if b.Token == c.ToToken || c.ToToken == 0 && b.Value == c.To {
			found = append(found, i)
		}
	}
	name := visible.Value(c.To)
	if c.ToToken != 0 {
		name = fmt.Sprintf("a ballot with token %d", c.ToToken)
	}
	switch len(found) {
	case 0:
		return 0, &failure{exitNo, fmt.Errorf("%s does not stand in %v: nothing was done", name, c.electionFlags), "leadership ballots shows who stands"}
	case 1:
	default:
		tokens := make([]string, len(found))
		for i, at := range found {
			tokens[i] = fmt.Sprint(q.Ballots[at].Token)
		}
		return 0, &failure{exitUsage, fmt.Errorf("%d candidates have the value %s in %v, with the tokens %s", len(found), name, c.electionFlags, strings.Join(tokens, ", ")), "name one with --to-token"}
	}
	for i, b := range q.Ballots[:found[0]+1] { // also the one to lead: a hold never does
		if _, held := operate.Held(b.Value); held {
			return 0, &failure{exitNo, fmt.Errorf("%v is held: nothing was done", c.electionFlags), "leadership release ends the hold"}
		}
		if b.Foreign && i < found[0] {
			return 0, &failure{
				exitNo, fmt.Errorf("%s, which is ahead in %v with token %d, takes no requests to resign: it stands by another program's recipe", visible.Value(b.Value), c.electionFlags, b.Token),
				"end that program first",
			}
		}
	}
	return found[0], nil
}

// plan says what is about to happen.
func (c *switchoverCmd) plan(q operate.Queue, at int) string {
	var text strings.Builder
	target := q.Ballots[at]
	fmt.Fprintf(&text, "In %v, %s is to lead, with token %d.\n", c.electionFlags, visible.Value(target.Value), target.Token)
	if ahead := q.Ballots[1:at]; len(ahead) > 0 {
		fmt.Fprintf(&text, "%s must step behind it first. ", names(ahead))
	}
	fmt.Fprintf(&text, "Then %s is asked to resign; its work stops first.", visible.Value(q.Ballots[0].Value))
	return text.String()
}

func names(ballots []store.Standing) string {
	list := make([]string, len(ballots))
	for i, b := range ballots {
		list[i] = visible.Value(b.Value)
	}
	return strings.Join(list, ", ")
}

// explain says why the target does not lead.
func (c *switchoverCmd) explain(err error, target store.Standing, o operate.Outcome) error {
	name := visible.Value(target.Value)
	stands := slices.ContainsFunc(o.After.Ballots, func(b store.Standing) bool { return b.Token == target.Token })
	switch {
	case errors.Is(err, operate.ErrTargetGone):
		return &failure{exitNo, fmt.Errorf("%s has gone meanwhile in %v; the leader was not asked", name, c.electionFlags), "leadership ballots shows who stands"}
	case errors.Is(err, operate.ErrNotStanding), errors.Is(err, operate.ErrForeign):
		return &failure{exitNo, fmt.Errorf("the queue of %v has changed meanwhile: nothing was done", c.electionFlags), "try again"}
	case !errors.Is(err, operate.ErrNotDone):
		return err
	case !stands && slices.ContainsFunc(o.After.Ballots, func(b store.Standing) bool { return b.Value == target.Value }):
		return &failure{exitNo, fmt.Errorf("%s gave its ballot back in %v after the leader was asked to resign, and stands again: it might give way to others, in a version that does so also in a switch-over", name, c.electionFlags), "leadership ballots shows who stands; try again"}
	case !stands:
		return &failure{exitNo, fmt.Errorf("%s has gone in %v after the leader was asked to resign: the next in line leads", name, c.electionFlags), "leadership ballots shows who stands"}
	case o.After.Ballots[0].Token == target.Token:
		return &failure{exitNo, fmt.Errorf("%s is first in line in %v, and has not acknowledged within %v", name, c.electionFlags, c.Timeout), "leadership leader --wait=1m waits until it has"}
	}
	return &failure{
		exitNo, fmt.Errorf("%s still stands in %v %v after the request: its work has not stopped", visible.Value(o.After.Ballots[0].Value), c.electionFlags, c.Timeout),
		"the switch-over goes on when its work has stopped; if its program hangs, end the program",
	}
}

// print prints who leads.
func (c *switchoverCmd) print(a *app, target store.Standing, o operate.Outcome) error {
	if c.JSON {
		behind := []tokenJSON{}
		for _, b := range o.Behind {
			behind = append(behind, tokenOf(b))
		}
		var before *tokenJSON
		if len(o.Before.Ballots) > 0 {
			first := tokenOf(o.Before.Ballots[0])
			before = &first
		}
		return printJSON(a.out, struct {
			placeJSON
			Before *tokenJSON  `json:"before"`
			Leader tokenJSON   `json:"leader"`
			Behind []tokenJSON `json:"stepped_behind"`
			Took   float64     `json:"took_seconds"`
		}{c.place(), before, tokenOf(target), behind, o.Took.Seconds()})
	}
	name := a.outStyle.paint(green, visible.Value(target.Value))
	if o.Before.Ballots[0].Token == target.Token {
		_, err := fmt.Fprintf(a.out, "%s leads already, with token %d\n", name, target.Token)
		return err
	}
	_, err := fmt.Fprintf(a.out, "%s leads with token %d, %v after the request\n", name, target.Token, o.Took.Round(time.Millisecond))
	return err
}
