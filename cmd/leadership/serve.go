package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"

	"github.com/go-leadership/leadership/cmd/leadership/internal/serve"
	"github.com/go-leadership/leadership/internal/demo"
	"github.com/go-leadership/leadership/store"
)

type serveCmd struct {
	storeFlags

	Listen   string   `default:"127.0.0.1:8009" placeholder:"127.0.0.1:8009" help:"Address to serve at. All who reach it see all elections. Default: 127.0.0.1:8009."`
	Election []string `env:"LEADERSHIP_ELECTION" sep:"none" placeholder:"NAME" help:"An election to show; may be given several times. Default: all elections of the store."`
	History  string   `placeholder:"FILE" help:"Append each change of a leader to this file, a line of JSON each. See leadership history."`
}

// Help is the text below the flags' in --help.
func (serveCmd) Help() string {
	return `It serves a page about all elections below the path of the store's URL, what is wrong first. The page follows
the elections live, and is complete without JavaScript. It changes nothing. Other paths:

    /elections                           all elections, in JSON
    /elections/NAME/leader?value=VALUE   200 if that is the leader, as of no longer ago than the TTL; otherwise 503
    /events                              what changes on the page, as server-sent events
    /metrics                             in the text format of Prometheus

Exit codes: 0: ended by SIGTERM; 64: wrong usage; 69: the store did not answer at the start; 70: the address is taken, or
another failure; 77: the store denied it; 130: ended by Ctrl-C.`
}

// mostBrowsers is how many connections serve serves at once.
const mostBrowsers = 512

// Run implements the subcommand.
func (c *serveCmd) Run(a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(a.errs, nil))
	return c.withOptions(store.Options{Logger: log}, func(ctx context.Context, s *session) error {
		if err := c.try(ctx, a, s); err != nil {
			return err
		}
		l, err := listen(c.Listen, mostBrowsers)
		if err != nil {
			return &failure{code: exitSoftware, err: err, advice: "give --listen a free address of this machine, such as 127.0.0.1:8009"}
		}
		u, _ := store.ParseURL(c.Store)           // it has been opened
		host, _, _ := net.SplitHostPort(c.Listen) // it is listened at
		server, err := serve.New(serve.Config{
			Store: s.Store, Address: s.address, Host: host, Bound: demo.Bound(u.Scheme, s.TTL()), Elections: c.Election, History: c.History, Logger: log,
		})
		if err != nil {
			return errors.Join(err, l.net.Close())
		}
		l.serve(log, server)
		<-ctx.Done()
		l.end() // so that no stream waits for a browser that does not read
		return errors.Join(server.Close(), toldToEnd(context.Cause(ctx)))
	})
}

// check returns a usage error.
func (c *serveCmd) check() error {
	if err := c.storeFlags.check(); err != nil {
		return err
	}
	c.Election = slices.DeleteFunc(c.Election, func(name string) bool { return name == "" }) // an empty variable counts as none
	for i, name := range c.Election {
		if err := store.CheckElection(name); err != nil {
			return err
		}
		if slices.Contains(c.Election[:i], name) {
			return &failure{code: exitUsage, err: fmt.Errorf("--election=%s is given twice", name)}
		}
	}
	return nil
}

// try asks the store what the server will ask: a wrong address or password ends the command, and not a page that stays
// empty.
func (c *serveCmd) try(ctx context.Context, a *app, s *session) error {
	defer a.progress("asking " + s.address)()
	return s.ask(ctx, func(ctx context.Context) error {
		if len(c.Election) > 0 {
			_, err := s.Observe(ctx, c.Election[0], nil)
			return err
		}
		_, err := s.Elections(ctx)
		return err
	})
}
