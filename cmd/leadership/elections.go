package main

import (
	"context"
	"fmt"

	"github.com/go-leadership/leadership/internal/visible"
)

type electionsCmd struct {
	storeFlags
	outputFlags
}

// Help is the text below the flags' in --help.
func (electionsCmd) Help() string {
	return `It prints a line for each election below the path of the store's URL in which a candidate stands. In a directory and on
ZooKeeper it also prints elections without candidates, until leadership clear removes them.

Exit codes: 0: the list is complete, and may be empty; 64: wrong usage; 69: the store did not answer; 77: it denied.`
}

// Run implements the subcommand.
func (c *electionsCmd) Run(a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	names := []string{}
	err := c.with(func(ctx context.Context, s *session) error {
		defer a.progress("asking " + s.address)()
		return s.ask(ctx, func(ctx context.Context) error {
			list, err := s.Elections(ctx)
			names = append(names, list...)
			return err
		})
	})
	switch {
	case err != nil:
		return err
	case c.JSON:
		return printJSON(a.out, struct {
			Store     string   `json:"store"`
			Elections []string `json:"elections"`
		}{c.address(), names})
	}
	for _, name := range names {
		if _, err := fmt.Fprintln(a.out, visible.Value(name)); err != nil {
			return err
		}
	}
	return nil
}
