package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/go-leadership/leadership/cmd/leadership/internal/guard"
	"github.com/go-leadership/leadership/internal/demo"
	"github.com/go-leadership/leadership/status"
	"github.com/go-leadership/leadership/store"
)

type runCmd struct {
	storeFlag
	electionFlag
	Value         string         `placeholder:"TEXT" help:"What others read of this process while it leads, such as its address. Default: the name of the host."`
	Wait          *time.Duration `placeholder:"DURATION" help:"Give up if this process has not led within this time. Default: wait for ever."`
	Linger        time.Duration  `placeholder:"DURATION" help:"Keep the leadership that long after a command that has succeeded, so that others with --wait give up and do not run it again. Default: 0s."`
	Hold          string         `hidden:""` // the name of --linger in early versions
	StopTimeout   *time.Duration `placeholder:"DURATION" help:"Time between SIGTERM and SIGKILL if the lease is about to end; the lease is shorter for the command by as much. Default: a quarter of what fits, at most 10s."`
	ResignTimeout *time.Duration `placeholder:"DURATION" help:"Time between SIGTERM and SIGKILL if an operator has asked for the resignation, or a check fails: the lease goes on meanwhile. Default: 30s, or --stop-timeout if that is longer."`
	Again         bool           `help:"Stand again when leadership was lost or the command has failed, after 1 s, which doubles up to 1 min."`
	AgainLimit    int            `default:"5" placeholder:"5" help:"With --again: give up after this many failures of the command within a minute. 0: never. Default: 5."`
	ReadyExec     string         `xor:"ready" placeholder:"COMMAND" help:"The command has taken over when this shell command succeeds. It is guarded as the command is."`
	ReadyHTTP     string         `name:"ready-http" xor:"ready" placeholder:"URL" help:"The command has taken over when this URL is answered with 2xx."`
	ReadyFD       bool           `name:"ready-fd" xor:"ready" help:"The command has taken over when it writes to the descriptor in $LEADERSHIP_READY_FD."`
	ReadyTimeout  time.Duration  `default:"1m" placeholder:"1m" help:"The takeover has failed if the command is not ready within this time. Default: 1m."`
	Strict        bool           `help:"Refuse to start unless the command can be run in a PID namespace, which leaves no process behind."`
	Unguarded     bool           `help:"Run the command as a plain child, which may outlive the leadership. The only way on other systems than Linux."`
	WaitAll       bool           `help:"When the command has exited, wait for the processes that it has left, and do not kill them."`
	checkFlags
	Listen   string `placeholder:"ADDRESS" help:"Serve over HTTP what this process is doing, on 127.0.0.1:8008 say: /leader, /follower, /readyz, /livez, /healthz, /status, /metrics."`
	LogLevel string `enum:"debug,info,warn,error" default:"info" placeholder:"info" help:"What to log to standard error: debug, info, warn or error. Default: info."`

	Command []string `arg:"" passthrough:"partial" placeholder:"COMMAND" help:"The command and its arguments, after --."`
}

// Help is the text below the flags' in --help.
func (runCmd) Help() string {
	return `It waits until this process leads, runs the command, and stops it before another process can lead. The command's
environment has LEADERSHIP_STORE, LEADERSHIP_ELECTION, LEADERSHIP_VALUE and LEADERSHIP_TOKEN, the fencing token:
resources refuse writes with a lower token than the highest they have seen.

While the command runs it gets SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 and SIGWINCH. The second SIGTERM or
SIGINT kills it. Before the command runs, SIGTERM and SIGINT end the candidacy.

With --wait it gives up with 124 only behind a process that lives: until the store has ended the session of one that has
died, which takes the TTL and a little more, it waits on.

Exit codes: the command's own; 128+N: signal N ended the command, or the candidacy; 64: wrong usage; 69: it could not lead
within --wait, and no other is known to; 75: the command was stopped because leadership was lost; 77: the store denied it;
124: another one was ahead for all of --wait; 125: another failure of leadership itself; 126: the command can't be
executed; 127: there is no such command.`
}

// Run implements the subcommand.
func (c *runCmd) Run(a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return err
	}
	a.errs, a.end = newSteadyLog(a.errs) // also for the error that this returns
	log := slog.New(slog.NewTextHandler(a.errs, &slog.HandlerOptions{Level: level}))
	signals := notifySignals()
	a.warnOfClearPassword(c.Store)
	var page *status.Handler
	if c.Listen != "" {
		l, err := listen(c.Listen, mostClients)
		if err != nil {
			return err
		}
		page = status.New(status.Config{})
		l.serve(log, page)
		defer l.end()
	}
	config, st, err := c.prepare(log, page)
	if err != nil {
		return err
	}
	r := &runner{
		page:      page,
		giveWayTo: c.GiveWayTo,
		fitness:   c.fitness(c.checkEnv()),

		election: c.Election, address: c.address(), value: c.Value, wait: value(c.Wait, 0), bound: c.bound(st), linger: c.Linger,
		again:         retries{enabled: c.Again, limit: c.AgainLimit},
		ready:         readiness{exec: c.ReadyExec, url: c.ReadyHTTP, fd: c.ReadyFD, timeout: c.ReadyTimeout},
		env:           commandEnv(os.Environ(), c.Store, c.Election, c.Value),
		start:         starter(config),
		least:         leastToStart(config),
		resignTimeout: value(c.ResignTimeout, max(defaultResignTimeout, config.StopTimeout)),
		signals:       signals, terminal: hasTerminal(), manager: managerOf(os.Getenv), log: log, store: st,
	}
	o := r.run()
	if o.code == exitNeverLed && o.kind == final && level > slog.LevelInfo {
		o.err = nil // as expected, on each machine but one
	}
	err = o.exit()
	if closed := closeSoon(st, o.kind == final); err == nil && closed != nil {
		log.Warn("could not close the store", "error", closed)
	}
	return err
}

// prepare finds out how the command is guarded, and opens the store. A signal that ends the candidacy ends it.
func (c *runCmd) prepare(log *slog.Logger, page *status.Handler) (config guard.Config, st store.Store, err error) {
	ends := []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT}
	if hasTerminal() {
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := endedBy(ends...)
	defer stop()
	if config, err = c.guard(ctx, log); err == nil {
		options := store.Options{Logger: log}
		if page != nil {
			options.Renewed = page.Renewed(c.address())
		}
		var url storeFlag
		var none error
		if url.Store, none = ownLifeline(c.Store); none != nil {
			log.Info("no lifeline: if this process is killed, others lead after the TTL", "because", none)
		}
		st, err = url.open(ctx, options)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return config, st, err
}

// exit returns the outcome as the error that Run returns.
func (o outcome) exit() error {
	var known *failure
	switch {
	case o.code == 0:
		return nil
	case errors.As(o.err, &known):
		return known
	case o.err == nil:
		return &failure{code: o.code, err: errors.New("")}
	}
	return &failure{code: o.code, err: o.err}
}

// bound returns for how long a ballot stands after its process has died.
func (c *runCmd) bound(st store.Store) time.Duration {
	u, err := store.ParseURL(c.Store)
	if err != nil { // it has been parsed before
		return st.TTL()
	}
	return cmp.Or(demo.Bound(u.Scheme, st.TTL()), st.TTL())
}

// closeSoon closes the store. It waits no longer than the session lasts without a renewal. A runner that is asked to end
// does not wait for long.
func closeSoon(st store.Store, asked bool) error {
	if asked {
		return closeWithin(withdrawal, st)
	}
	return closeWithin(st.TTL(), st)
}

// check returns a usage error.
func (c *runCmd) check() error {
	if err := c.storeFlag.check(); err != nil {
		return err
	}
	if err := c.electionFlag.check(); err != nil {
		return err
	}
	if err := c.checkFlags.check(); err != nil {
		return err
	}
	if len(c.Command) > 0 && c.Command[0] == "--" {
		c.Command = c.Command[1:]
	}
	if c.Value == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("give --value: %w", err)
		}
		c.Value = host
	}
	switch {
	case c.Hold != "":
		return usage("--hold is --linger now: leadership hold, which keeps all candidates from leading, is another thing")
	case !fitsEnvironment("LEADERSHIP_VALUE=" + c.Value):
		return usage("--value is too long for an environment variable, or has a zero byte: the command gets it as LEADERSHIP_VALUE")
	case strings.Contains(c.ReadyExec, "\x00"):
		return usage("--ready-exec has a zero byte")
	case len(c.Command) == 0:
		return usage("no command is given: leadership run [flags] -- command args")
	case value(c.Wait, 1) <= 0:
		return usage("--wait=%v is not more than zero", *c.Wait)
	case value(c.StopTimeout, 0) < 0 || value(c.ResignTimeout, 0) < 0 || c.AgainLimit < 0 || c.Linger < 0:
		return usage("--stop-timeout, --resign-timeout, --again-limit and --linger can't be negative")
	case c.ReadyTimeout <= 0:
		return usage("--ready-timeout=%v is not more than zero", c.ReadyTimeout)
	case c.Strict && c.Unguarded:
		return usage("--strict and --unguarded exclude each other")
	case c.WaitAll && c.Unguarded:
		return usage("--wait-all and --unguarded exclude each other: an unguarded command's children can't be waited for")
	}
	if u, err := url.Parse(c.ReadyHTTP); c.ReadyHTTP != "" && (err != nil || u.Host == "" || !strings.HasPrefix(u.Scheme, "http")) {
		return usage("--ready-http is no URL that begins with http:// or https://")
	}
	return store.CheckValue(c.Value)
}

// fitsEnvironment reports whether a variable can be passed on: Linux takes 128 KiB of each, with a zero byte at the end.
func fitsEnvironment(variable string) bool {
	return len(variable) < 128<<10 && !strings.Contains(variable, "\x00")
}

// value returns what a flag was set to, or the default.
func value(flag *time.Duration, otherwise time.Duration) time.Duration {
	if flag != nil {
		return *flag
	}
	return otherwise
}

func usage(format string, args ...any) error {
	return &failure{code: exitUsage, err: fmt.Errorf(format, args...), advice: "see leadership run --help"}
}

// leastToStart is how much of a lease has to be left to start a command: the time to end the command, and half of the
// time that is reserved for late renewals.
func leastToStart(c guard.Config) time.Duration {
	return c.TTL - c.RenewEvery - (c.MaxStopTimeout()-c.StopTimeout)/2
}

// defaultStopTimeout is a quarter of the longest stop timeout. The rest is reserved for late renewals.
func defaultStopTimeout(most time.Duration) time.Duration { return max(0, min(10*time.Second, most/4)) }

// defaultResignTimeout is how long a command has to stop if its lease goes on: about what service managers give.
const defaultResignTimeout = 30 * time.Second

// selfTest is guard.SelfTest. Tests replace it.
var selfTest = guard.SelfTest

// guard returns how the command is guarded, and says what that does not cover. The self-test comes after what is checked
// without it.
func (c *runCmd) guard(ctx context.Context, log *slog.Logger) (guard.Config, error) {
	ttl, grace, err := sessionOf(c.Store)
	if err != nil {
		return guard.Config{}, err
	}
	config := times(ttl, grace)
	config.Command, config.Mode, config.WaitAll, config.Logger = c.Command, guard.UnguardedMode(), c.WaitAll, log
	config.StopTimeout = value(c.StopTimeout, defaultStopTimeout(config.MaxStopTimeout()))
	if err = config.Check(); err == nil && !c.Unguarded {
		if config.Mode, err = selfTest(ctx); err != nil {
			return config, &failure{code: exitFailed, err: err, advice: "--unguarded runs the command as a plain child, which may outlive the leadership"}
		}
		config.Strict = c.Strict
		err = config.Check()
	}
	var exec *guard.ExecError
	switch {
	case errors.Is(err, guard.ErrStrict):
		return config, &failure{code: exitFailed, err: err, advice: "allow user namespaces, or leave --strict out: then the log names what is not covered"}
	case errors.As(err, &exec):
		return config, &failure{code: exec.Code(), err: err}
	case err != nil:
		return config, &failure{code: exitUsage, err: err, advice: "give the store's URL a longer ttl, or a shorter --stop-timeout"}
	}
	if config.Mode.Kind != guard.Namespace {
		because := "--unguarded"
		if len(config.Mode.Reasons) > 0 {
			because = strings.Join(config.Mode.Reasons, "; ")
		}
		log.Warn("the command runs without a PID namespace: two commands may run at once after some faults",
			"mode", config.Mode.Kind, "because", because, "faults", strings.Join(config.Mode.Uncovered, "; "))
	}
	for _, note := range config.Mode.Notes {
		log.Debug("note", "mode", config.Mode.Kind, "note", note)
	}
	return config, nil
}

// sessionOf returns the TTL and the grace of a store's URL, or what is wrong with them.
func sessionOf(raw string) (ttl, grace time.Duration, err error) {
	if _, err := store.ParseURL(raw); err != nil {
		return 0, 0, err
	}
	_, query, _ := strings.Cut(raw, "?")
	options, _ := url.ParseQuery(query)
	maps.DeleteFunc(options, func(name string, _ []string) bool { return name != "ttl" && name != "grace" })
	u, err := store.ParseURL("any://?" + options.Encode()) // without the options that only the store knows
	if err != nil {
		return 0, 0, err
	}
	ttl, grace = u.Session()
	return ttl, grace, u.Check()
}

// times returns the times that the guard keeps. The guard's TTL is the length of the lease. Every store renews a lease at
// least once in each third of the session's TTL.
func times(ttl, grace time.Duration) guard.Config {
	return guard.Config{TTL: ttl - grace, RenewEvery: ttl / 3}
}

// starter returns the startFunc of a configuration.
func starter(config guard.Config) startFunc {
	return func(s spec, lease func() time.Duration) (process, error) {
		c := config
		c.Env, c.Files, c.Keep = s.env, s.files, s.keep
		p, err := guard.Start(c, lease)
		if err != nil {
			return nil, err // not p: an interface that holds a nil *guard.Process is not nil
		}
		return p, nil
	}
}
