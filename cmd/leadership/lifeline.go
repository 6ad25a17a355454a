package main

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/go-leadership/leadership/internal/lifeline"
	"github.com/go-leadership/leadership/store"
)

type lifelineCmd struct {
	Listen   string   `placeholder:"PATH" help:"The socket for programs whose URL has lifeline=PATH. Default with a program: one for that program alone, whose URL has lifeline=self."`
	Allow    []string `placeholder:"USER" help:"A user whose programs may use the lifeline, by name or number, besides its own and root. May be repeated."`
	LogLevel string   `enum:"debug,info,warn,error" default:"info" placeholder:"info" help:"What to log to standard error: debug, info, warn or error. Default: info."`

	Program []string `arg:"" optional:"" passthrough:"partial" placeholder:"PROGRAM" help:"A program and its arguments, after --."`
}

// Help is the text below the flags' in --help.
func (lifelineCmd) Help() string {
	return `A lifeline ends the sessions of a program as soon as the program is dead, so that another candidate leads
milliseconds after a crash, and not a TTL later. Programs name it by the option lifeline of the store's URL.

With --listen, it serves the programs of a machine or of a pod, until SIGTERM or SIGINT. With a program, it starts the
program, passes on signals, reaps all children, as the init of a container does, and ends with the program.

It knows the credentials of the programs' stores, and keeps them out of files, arguments and core dumps. If it is
killed, sessions end after their TTL, as they do without it.

Exit codes: with a program, the program's own, or 128+N if signal N ended it; 126 and 127 if the program can't be
executed or does not exist; without one, 0: ended by SIGTERM, 130: by Ctrl-C; 64: wrong usage; 70: it can't listen, for
example since another lifeline does.`
}

// check returns a usage error.
func (c *lifelineCmd) check() error {
	if len(c.Program) > 0 && c.Program[0] == "--" {
		c.Program = c.Program[1:]
	}
	switch {
	case c.Listen == "" && len(c.Program) == 0:
		return lifelineUsage("give --listen=PATH, or a program after --")
	case c.Listen != "" && !filepath.IsAbs(c.Listen):
		return lifelineUsage("--listen is not an absolute path")
	case c.Listen == "" && len(c.Allow) > 0:
		return lifelineUsage("--allow is of use only with --listen")
	}
	return nil
}

func lifelineUsage(text string) error {
	return &failure{code: exitUsage, err: errors.New(text), advice: "see leadership lifeline --help"}
}

// ownLifeline returns the URL of a store with a lifeline of this process's own, if the store can have one and the URL
// names none, or why there can be no lifeline.
func ownLifeline(url string) (with string, why error) {
	u, err := store.ParseURL(url)
	if err != nil || !lifeline.Knows(u.Scheme) || u.Option("lifeline", "") != "" {
		return url, nil
	}
	if err := lifeline.Check(lifeline.Self); err != nil {
		return url, err
	}
	separator := "?"
	if strings.Contains(url, "?") {
		separator = "&"
	}
	return url + separator + "lifeline=" + lifeline.Self, nil
}
