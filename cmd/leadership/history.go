package main

import (
	"fmt"
	"os"
	"time"

	"github.com/go-leadership/leadership/cmd/leadership/internal/serve"
	"github.com/go-leadership/leadership/internal/visible"
)

type historyCmd struct {
	outputFlags

	File     string `required:"" placeholder:"FILE" help:"The file of leadership serve --history."`
	Election string `placeholder:"NAME" help:"Print the changes of this election alone."`
}

// Help is the text below the flags' in --help.
func (historyCmd) Help() string {
	return `It prints the time of each change, the election, its leader, and for how long there was none before. The times are
those at which leadership serve saw the changes. It needs no store. A line that was not written to its end is left out.

Exit codes: 0: the file is printed; 64: wrong usage; 70: the file can't be read.`
}

// Run implements the subcommand.
func (c *historyCmd) Run(a *app) error {
	file, err := os.Open(c.File)
	if err != nil {
		return err
	}
	defer file.Close()
	torn, err := serve.ReadHistory(file, func(change serve.Change) error {
		switch {
		case c.Election != "" && change.Election != c.Election:
			return nil
		case c.JSON:
			return printJSON(a.out, change)
		}
		return c.print(a, change)
	})
	if torn > 0 {
		a.warnf("%d lines are torn, and left out", torn)
	}
	return err
}

// print prints a change for people.
func (c *historyCmd) print(a *app, change serve.Change) error {
	text := a.outStyle.paint(yellow, "no leader")
	if change.Leader != nil {
		text = "leader  " + a.outStyle.paint(green, visible.Value(change.Leader.Exact()))
	}
	if change.Gap != nil {
		text += "  after " + serve.Short(time.Duration(*change.Gap*float64(time.Second))) + " without"
	}
	if change.AtStart {
		text += "  (found at the start)"
	}
	_, err := fmt.Fprintf(a.out, "%s  %s  %s\n", change.Time.Local().Format("2006-01-02 15:04:05.000"), visible.Value(change.Election), text)
	return err
}
