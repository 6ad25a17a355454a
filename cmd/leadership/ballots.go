package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-leadership/leadership/store"
)

type ballotsCmd struct {
	electionFlags
	outputFlags
}

// Help is the text below the flags' in --help.
func (ballotsCmd) Help() string {
	return `The first in line leads. It is shown as "leads" once it has acknowledged, which is when followers know it, and as
"asked to resign" if an operator has asked it and its work has not stopped. The token is the fencing token of the
ballot: resources refuse writes with a lower one than the highest they have seen.

Exit codes: 0: the list is complete, and may be empty; 64: wrong usage; 69: the store did not answer; 77: it denied.`
}

// queue is the ballots of an election, and its leader.
type queue struct {
	ballots []store.Standing
	leader  store.Leader
}

// leads reports whether the first in line is the leader that has acknowledged.
func (q queue) leads() bool { return len(q.ballots) > 0 && q.leader.Revision != 0 }

// queueOf reads the ballots and the leader. These are two requests, so it reads again if the first in line has changed
// between them.
func (s *session) queueOf(ctx context.Context, election string) (q queue, err error) {
	err = s.ask(ctx, func(ctx context.Context) error {
		before, err := s.Ballots(ctx, election)
		for err == nil {
			var known store.Known
			if known, err = s.Observe(ctx, election, nil); err != nil {
				return err
			}
			q.leader = known.Leader
			if q.ballots, err = s.Ballots(ctx, election); err != nil || slices.Equal(first(before), first(q.ballots)) {
				return err
			}
			before = q.ballots
		}
		return err
	})
	return q, err
}

func first(ballots []store.Standing) []store.Standing { return ballots[:min(len(ballots), 1)] }

// ballotJSON is a ballot in JSON.
type ballotJSON struct {
	Position int    `json:"position"` // 1 is the first in line
	Token    uint64 `json:"token"`
	valueJSON
	Leads   bool `json:"leads"`                     // is first, and has acknowledged
	Asked   bool `json:"asked_to_resign,omitempty"` // and has not gone
	Foreign bool `json:"foreign,omitempty"`         // stands by another program's recipe
}

// Run implements the subcommand.
func (c *ballotsCmd) Run(a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	var q queue
	err := c.with(func(ctx context.Context, s *session) (err error) {
		defer a.progress("asking " + s.address)()
		q, err = s.queueOf(ctx, c.Election)
		return err
	})
	switch {
	case err != nil:
		return err
	case c.JSON:
		return c.printJSON(a, q)
	case len(q.ballots) == 0:
		_, err = fmt.Fprintf(a.out, "no candidate stands in %v\n", c.electionFlags)
		return err
	}
	rows := [][]cell{texts("POSITION", "TOKEN", "STATE", "VALUE")}
	for i, b := range q.ballots {
		row := texts(strconv.Itoa(i+1), strconv.FormatUint(b.Token, 10), "waits", printable(b.Value))
		switch {
		case b.Asked:
			row[2] = cell{"asked to resign", yellow}
		case i == 0 && q.leads():
			row[2] = cell{"leads", green}
		case i == 0:
			row[2] = cell{"first, not acknowledged", yellow}
		}
		rows = append(rows, row)
	}
	return a.outStyle.table(a.out, rows)
}

func (c *ballotsCmd) printJSON(a *app, q queue) error {
	ballots := []ballotJSON{}
	for i, b := range q.ballots {
		ballots = append(ballots, ballotJSON{i + 1, b.Token, valueOf(b.Value), i == 0 && q.leads(), b.Asked, b.Foreign})
	}
	return printJSON(a.out, struct {
		placeJSON
		Ballots []ballotJSON `json:"ballots"`
		Leader  *leaderJSON  `json:"leader"`
	}{c.place(), ballots, leaderOf(q.leader)})
}
