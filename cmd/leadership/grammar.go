package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/go-leadership/leadership/internal/suite"
	"github.com/go-leadership/leadership/internal/visible"
)

// grammar is the command line. A flag is set by its value on the command line, or else by its environment variable, or
// else by the configuration file.
type grammar struct {
	Config string `env:"LEADERSHIP_CONFIG" placeholder:"FILE" help:"Configuration file: flags and their values, in YAML. Default: $XDG_CONFIG_HOME/leadership.yaml or /etc/leadership.yaml, if it exists."`

	ShowVersion versionFlag `name:"version" help:"Print the version."`

	Run        runCmd        `cmd:"" help:"Run a command only while this process leads."`
	Watch      watchCmd      `cmd:"" help:"Print who leads, and each change."`
	Leader     leaderCmd     `cmd:"" help:"Print the value of the leader."`
	Ballots    ballotsCmd    `cmd:"" help:"List who stands, first in line first, and who leads."`
	Elections  electionsCmd  `cmd:"" help:"List the elections of a store."`
	Stepdown   stepdownCmd   `cmd:"" help:"Ask the leader to resign, and wait until another leads."`
	Switchover switchoverCmd `cmd:"" help:"Make a candidate that you name the leader."`
	Serve      serveCmd      `cmd:"" help:"Serve a page about all elections of a store, live."`
	History    historyCmd    `cmd:"" help:"Print the changes of leaders that serve has kept in a file."`
	Hold       holdCmd       `cmd:"" help:"Hold an election: no candidate begins a term while the command runs."`
	Release    releaseCmd    `cmd:"" help:"End the hold of an election."`

	Lifeline lifelineCmd `cmd:"" help:"End the sessions of programs as soon as these are dead."`

	Assert assertCmd `cmd:"" help:"Tell by the exit code whether the ballot with a token is first in line."`
	Clear  clearCmd  `cmd:"" help:"Remove the ballots and the leader of an election."`
	Demo   demoCmd   `cmd:"" help:"Show failovers on this machine."`

	Schema      schemaCmd      `cmd:"" help:"Print what the owner of a database runs before the first election."`
	Conformance conformanceCmd `cmd:"" help:"Run the conformance suite on a store."`
	Completion  completionCmd  `cmd:"" help:"Print a script that completes command lines of a shell."`
	Version     versionCmd     `cmd:"" help:"Print the version."`

	Complete completeCmd `cmd:"" name:"__complete" hidden:""`
}

const description = `Run a program only while it leads; see and steer elections.

Elections are held in a store: --store is its URL, --election the name of the election. Flags stand behind the
subcommand. One that is not given has the value of the environment (LEADERSHIP_STORE, LEADERSHIP_ELECTION), or else of the
configuration file.

Keep a password out of the URL with its options passwordenv=VARIABLE or passwordfile=FILE.

` + exitCodes

// app is what subcommands work with, besides their flags.
type app struct {
	in        io.Reader
	out, errs io.Writer
	outStyle  style  // of out
	errsStyle style  // of errs
	end       func() // called before the program ends
}

// run does what the arguments say, and returns the exit code.
func run(args []string) (code int) {
	// If the reader of stdout or stderr goes away, a write fails, and the program ends in order. Without this, the runtime
	// would end the program at once.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	a := &app{
		in: os.Stdin, out: os.Stdout, errs: os.Stderr, outStyle: styleOf(os.Stdout), errsStyle: styleOf(os.Stderr), end: func() {},
	}
	defer func() { a.end() }()
	err := a.run(args)
	code, advice := explain(err)
	if err == nil || err.Error() == "" || errors.As(err, &interrupted{}) || readerGone(err) {
		return code
	}
	fmt.Fprintf(a.errs, "leadership: %s\n", visible.Text(withoutPasswords(err.Error())))
	if advice != "" {
		fmt.Fprintf(a.errs, "  %s\n", advice)
	}
	return code
}

func (a *app) run(args []string) error {
	var g grammar
	done := false
	parser, err := kong.New(&g,
		kong.Name("leadership"), kong.Description(description), kong.Writers(a.out, a.errs),
		kong.KindMapper(reflect.String, kong.MapperFunc(decodeText)),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, WrapUpperBound: 110}),
		kong.Help(help),
		kong.Bind(a),
		kong.Exit(func(int) { done = true; panic(helpShown{}) }),
	)
	if err != nil {
		return err
	}
	var c *kong.Context
	func() {
		defer func() {
			if p := recover(); p != nil && p != (helpShown{}) {
				panic(p)
			}
		}()
		c, err = parser.Parse(args)
	}()
	if done || err != nil {
		return err
	}
	a.warnOfPassword(c)
	return c.Run(a)
}

// help prints the help of kong, and shows where the flags of a subcommand stand that runs a command.
func help(options kong.HelpOptions, c *kong.Context) error {
	var text strings.Builder
	out := c.Stdout
	c.Stdout = &text
	err := kong.DefaultHelpPrinter(options, c)
	c.Stdout = out
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, passthrough.ReplaceAllString(text.String(), "$1 [flags] -- $2 ...\n"))
	return err
}

var passthrough = regexp.MustCompile(`(?m)^(Usage: leadership \w+) \[?(<\w+>)(?: \.\.\.)?\]?(?: \.\.\.)? \[flags\]$\n`)

// decodeText takes a text as it is. Kong's own decoder replaces bytes that are not UTF-8, in the arguments of run's
// command too.
func decodeText(c *kong.DecodeContext, target reflect.Value) error {
	if _, is := c.Scan.Peek().Value.(string); !is { // a value of the configuration file
		return c.Scan.PopValueInto("string", target.Addr().Interface())
	}
	token, err := c.Scan.PopValue("string")
	if err == nil {
		target.SetString(token.Value.(string))
	}
	return err
}

// helpShown ends the parsing of a command line that asks for help.
type helpShown struct{}

// BeforeResolve reads the configuration file, before kong resolves the flags. Subcommands that need no configuration do
// not read the file, so they work even if it is wrong.
func (g *grammar) BeforeResolve(c *kong.Context) error {
	if command := c.Selected(); command != nil && slices.Contains([]string{"version", "completion", "__complete"}, command.Name) {
		return nil
	}
	path := g.Config // of the environment
	for _, p := range c.Path {
		if p.Flag != nil && p.Flag.Name == "config" {
			path, _ = c.FlagValue(p.Flag).(string)
		}
	}
	file, err := loadConfig(path)
	if err == nil && file != nil {
		c.AddResolver(file)
	}
	return err
}

// warnOfPassword warns of a password on the command line, which other users of the machine can read.
func (a *app) warnOfPassword(c *kong.Context) {
	if _, child := suite.Place(); child {
		return // its parent has warned
	}
	for _, p := range c.Path {
		if p.Flag == nil || p.Flag.Name != "store" || p.Resolved {
			continue
		}
		if url, _ := c.FlagValue(p.Flag).(string); hasPassword(url) {
			a.warnf("the password in --store is visible in the list of processes: " +
				"use the URL's option passwordenv=VARIABLE or passwordfile=FILE instead")
		}
	}
}

// warnf tells the user of something that is not an error.
func (a *app) warnf(format string, args ...any) {
	fmt.Fprintf(a.errs, "leadership: warning: %s\n", visible.Text(withoutPasswords(fmt.Sprintf(format, args...))))
}

// hasPassword reports whether the text of a store's URL shows a password.
func hasPassword(url string) bool {
	_, rest, _ := strings.Cut(url, "://")
	rest, _, _ = strings.Cut(rest, "?")
	authority, _, _ := strings.Cut(rest, "/")
	at := strings.LastIndexByte(authority, '@')
	if at < 0 {
		return false
	}
	_, password, _ := strings.Cut(authority[:at], ":")
	return password != ""
}

var credentials = regexp.MustCompile(`://[^\s"']*@`)

// withoutPasswords returns a text without the users and passwords of the URLs in it. Errors of this module show none;
// errors of the command line repeat arguments, which might be anything.
func withoutPasswords(text string) string { return credentials.ReplaceAllString(text, "://") }
