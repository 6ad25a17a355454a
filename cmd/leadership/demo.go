package main

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/go-leadership/leadership/internal/demo"
)

type demoCmd struct {
	storeFlags
	Pace  time.Duration `default:"750ms" placeholder:"750ms" help:"Time to read after each act. Default: 750ms."`
	Slack time.Duration `placeholder:"DURATION" help:"Time added to every bound, for a machine that is busy with other things."`
}

// Help is the text below the flags' in --help.
func (demoCmd) Help() string {
	return `Three candidates and a follower, each a process of its own, in the election leadership-demo. The leader is
killed, the next one frozen and woken again, and the one after that resigns. Without a store they use files in a
temporary directory. Each failover is measured against the bound that the store documents. Linux only.

On a server, the ballots of the last candidates stay until their sessions expire, however the demo ends.

Exit codes: 0: all was as promised; 1: it was not; 64: wrong usage; 69: the store did not answer; 77: it denied.`
}

// Run implements the subcommand.
func (c *demoCmd) Run(a *app) error {
	show := func(ctx context.Context) error {
		err := demo.Run(ctx, demo.Config{
			URL: c.Store, Pace: c.Pace, Slack: c.Slack, Out: a.out, Screen: demo.Terminal(os.Stdout),
		})
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return &failure{code: exitNo, err: fmt.Errorf("demo failed: %w", err)}
		}
		return nil
	}
	if c.Store == "" {
		// These signals end the demo in order, so that it removes its directory.
		ctx, stop := interruptible(syscall.SIGPIPE, syscall.SIGQUIT)
		defer stop()
		return show(ctx)
	}
	if err := c.check(); err != nil {
		return err
	}
	return c.with(func(ctx context.Context, s *session) error {
		err := s.ask(ctx, func(ctx context.Context) error {
			_, err := s.Ballots(ctx, "leadership-demo")
			return err
		})
		if err != nil {
			return err
		}
		return show(ctx)
	})
}
