package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-leadership/leadership/internal/directive"
	"github.com/go-leadership/leadership/internal/visible"
	"github.com/go-leadership/leadership/operate"
)

type ballotsCmd struct {
	electionFlags
	outputFlags
}

// Help is the text below the flags' in --help.
func (ballotsCmd) Help() string {
	return `The first in line leads. It is shown as "leads" once it has acknowledged, which is when followers know it, and as
"asked to resign" if an operator has asked it and its work has not stopped. The token is the fencing token of the
ballot: resources refuse writes with a lower one than the highest they have seen. On PostgreSQL, where dead candidates stand
until another one ends their sessions, RENEWED says when each session was renewed, by the database's clock.

Exit codes: 0: the list is complete, and may be empty; 64: wrong usage; 69: the store did not answer; 77: it denied.`
}

// queueOf reads the ballots and the leader.
func (s *session) queueOf(ctx context.Context, election string) (q operate.Queue, err error) {
	err = s.ask(ctx, func(ctx context.Context) (err error) {
		q, err = operate.Read(ctx, s.Store, election)
		return err
	})
	return q, err
}

// ballotJSON is a ballot in JSON.
type ballotJSON struct {
	Position int    `json:"position"`     // 1 is the first in line
	Token    uint64 `json:"token,string"` // text, since JavaScript rounds above 2^53
	visible.JSON
	Leads   bool `json:"leads"`                         // is first, and has acknowledged
	Asked   bool `json:"asked_to_resign,omitempty"`     // and has not gone
	Foreign bool `json:"foreign,omitempty"`             // stands by another program's recipe
	Holds   bool `json:"holds,omitempty"`               // keeps other ballots from leading; the value has the reason
	Silence any  `json:"renewed_seconds_ago,omitempty"` // of its session; see silenceJSON
}

// Run implements the subcommand.
func (c *ballotsCmd) Run(a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	var q operate.Queue
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
	case len(q.Ballots) == 0:
		_, err = fmt.Fprintf(a.out, "no candidate stands in %v\n", c.electionFlags)
		return err
	}
	rows := [][]cell{texts("POSITION", "TOKEN", "STATE", "VALUE")}
	renewed := []cell{{text: "RENEWED"}}
	for i, b := range q.Ballots {
		row := texts(strconv.Itoa(i+1), strconv.FormatUint(b.Token, 10), "waits", visible.Value(b.Value))
		reason, held := operate.Held(b.Value)
		token, insists := directive.Leads(b.Value)
		switch {
		case insists:
			row[2], row[3] = cell{"switches over", yellow}, cell{text: "to the token " + token}
		case held:
			row[2], row[3] = cell{"holds the election", yellow}, cell{text: visible.Value(reason)}
		case b.Asked:
			row[2] = cell{"asked to resign", yellow}
		case i == 0 && q.Leads():
			row[2] = cell{"leads", green}
		case i == 0:
			row[2] = cell{"first, not acknowledged", yellow}
		}
		rows = append(rows, row)
		last := cell{text: silenceText(b.Silence)}
		if b.Silence < 0 || b.Silence > 0 && c.overdue(b.Silence) {
			last.color = yellow
		}
		renewed = append(renewed, last)
	}
	if slices.ContainsFunc(renewed[1:], func(last cell) bool { return last.text != "" }) {
		for i := range rows {
			rows[i] = slices.Insert(rows[i], 3, renewed[i])
		}
	}
	return a.outStyle.table(a.out, rows)
}

func (c *ballotsCmd) printJSON(a *app, q operate.Queue) error {
	ballots := []ballotJSON{}
	for i, b := range q.Ballots {
		reason, held := operate.Held(b.Value)
		if held {
			b.Value = reason
		}
		ballots = append(ballots, ballotJSON{i + 1, b.Token, visible.InJSON(b.Value), i == 0 && q.Leads(), b.Asked, b.Foreign, held, silenceJSON(b.Silence)})
	}
	return printJSON(a.out, struct {
		placeJSON
		Ballots []ballotJSON `json:"ballots"`
		Leader  *leaderJSON  `json:"leader"`
	}{c.place(), ballots, leaderOf(q.Leader)})
}
