package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-leadership/leadership/store"
)

type assertCmd struct {
	electionFlags
	Token uint64 `required:"" env:"LEADERSHIP_TOKEN" placeholder:"N" help:"The ballot's fencing token."`
}

// Help is the text below the flags' in --help.
func (assertCmd) Help() string {
	return `For scripts: it answers by its exit code, and says on stderr why that is not 0. The answer was right at some
moment since the call. It might be wrong a moment later: only a resource that refuses lower tokens is safe from that.

Exit codes: 0: the ballot with this token stands and is first in line; 1: it does not stand, or is not first; 64: wrong
usage; 69: can't tell, since the store did not answer, denied it, or failed.`
}

// Run implements the subcommand.
func (c *assertCmd) Run(a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	var ballots []store.Standing
	err := c.with(func(ctx context.Context, s *session) error {
		defer a.progress("asking " + s.address)()
		return s.ask(ctx, func(ctx context.Context) (err error) {
			ballots, err = s.Ballots(ctx, c.Election)
			return err
		})
	})
	position := slices.IndexFunc(ballots, func(b store.Standing) bool { return b.Token == c.Token })
	switch {
	case err != nil:
		return cantTell(err)
	case position < 0:
		return &failure{code: exitNo, err: fmt.Errorf("no ballot with token %d stands in %v", c.Token, c.electionFlags)}
	case position > 0:
		return &failure{code: exitNo, err: fmt.Errorf("the ballot with token %d waits in %v: %d before it", c.Token, c.electionFlags, position)}
	}
	return nil
}

// cantTell gives every error of the store the exit code exitUnavailable: without an answer, assert can say neither yes
// nor no.
func cantTell(err error) error {
	code, advice := explain(err)
	if code == exitUsage || code > exitSignal {
		return err
	}
	return &failure{exitUnavailable, err, advice}
}
