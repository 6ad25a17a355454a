package main

import (
	"fmt"

	"github.com/go-leadership/leadership/store/postgres"
)

type schemaCmd struct {
	Store  string `arg:"" enum:"postgres" help:"The store: postgres."`
	Schema string `placeholder:"NAME" default:"leadership" help:"The schema, as in the URL's option schema."`
}

// Help is the text below the flags' in --help.
func (schemaCmd) Help() string {
	return `The first candidate whose role may create schemas creates what elections need. If candidates may not, the owner
of the database does it once, and grants the rights that are at the end of the text:

    leadership schema postgres | psql --set=ON_ERROR_STOP=1 DATABASE

Exit codes: 0: printed; 64: wrong usage.`
}

// Run implements the subcommand.
func (c *schemaCmd) Run(a *app) error {
	text, err := postgres.Schema(c.Schema)
	if err != nil {
		return &failure{code: exitUsage, err: err}
	}
	_, err = fmt.Fprint(a.out, text)
	return err
}
