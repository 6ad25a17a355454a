package main

import (
	"context"
	"fmt"
	"time"

	"github.com/go-leadership/leadership/internal/visible"
	"github.com/go-leadership/leadership/store"
)

type leaderCmd struct {
	electionFlags
	outputFlags
	Wait time.Duration `placeholder:"DURATION" help:"Wait for a leader, for at most this time."`
}

// Help is the text below the flags' in --help.
func (leaderCmd) Help() string {
	return `It prints the exact bytes that the leader acknowledged with, and a line break. A leader that has not
acknowledged yet is not shown: leadership ballots shows it. On PostgreSQL a dead leader is shown until a candidate ends its
session. A warning on stderr says that the session was not renewed within the TTL of --store, or that this is not known.

Exit codes: 0: there is a leader; 1: there is none; 64: wrong usage; 69: the store did not answer, so there might be one;
77: it denied.`
}

// leaderJSON is a leader in JSON.
type leaderJSON struct {
	visible.JSON
	Revision uint64 `json:"revision"`
	Silence  any    `json:"renewed_seconds_ago,omitempty"` // of its session; see silenceJSON
}

func leaderOf(l store.Leader) *leaderJSON {
	if l.Revision == 0 {
		return nil
	}
	return &leaderJSON{JSON: visible.InJSON(l.Value), Revision: l.Revision}
}

// Run implements the subcommand.
func (c *leaderCmd) Run(a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	if c.Wait < 0 {
		return &failure{code: exitUsage, err: fmt.Errorf("--wait=%v is less than zero", c.Wait)}
	}
	var (
		leader  store.Leader
		silence time.Duration
		unknown error // why silence is not known
	)
	err := c.with(func(ctx context.Context, s *session) (err error) {
		defer a.progress("asking " + s.address)()
		if leader, err = c.find(ctx, s); err == nil && leader.Revision != 0 {
			silence, unknown = s.silence(ctx, c.Election)
		}
		return err
	})
	if err != nil {
		return err
	}
	a.warnOfSilence(c.storeFlag, silence, unknown)
	if c.JSON {
		l := leaderOf(leader)
		if l != nil {
			l.Silence = silenceJSON(silence)
		}
		err = printJSON(a.out, struct {
			placeJSON
			Leader *leaderJSON `json:"leader"`
		}{c.place(), l})
	} else if leader.Revision != 0 {
		value := leader.Value
		if a.outStyle.terminal {
			value = visible.Value(value)
		}
		_, err = fmt.Fprintln(a.out, value)
	}
	if err == nil && leader.Revision == 0 {
		err = c.noLeader()
	}
	return err
}

// find returns the leader, or the zero Leader if there is none even after --wait.
func (c *leaderCmd) find(ctx context.Context, s *session) (store.Leader, error) {
	known, err := c.now(ctx, s)
	if err != nil || known.Leader.Revision != 0 || c.Wait <= 0 {
		return known.Leader, err
	}
	waiting, cancel := context.WithTimeout(ctx, c.Wait)
	defer cancel()
	for err == nil && known.Leader.Revision == 0 {
		known, err = s.Observe(waiting, c.Election, &known)
	}
	switch {
	case ctx.Err() != nil:
		return store.Leader{}, context.Cause(ctx)
	case waiting.Err() != nil: // the store might have been silent
		known, err = c.now(ctx, s)
	}
	return known.Leader, err
}

// now returns the present leader.
func (c *leaderCmd) now(ctx context.Context, s *session) (known store.Known, err error) {
	err = s.ask(ctx, func(ctx context.Context) error {
		known, err = s.Observe(ctx, c.Election, nil)
		return err
	})
	return known, err
}
