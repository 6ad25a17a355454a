package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-leadership/leadership/store"
)

// storeFlag says which store.
type storeFlag struct {
	Store string `env:"LEADERSHIP_STORE" placeholder:"URL" help:"URL of the store, such as etcd://host:2379/?ttl=10s."`
}

// storeFlags say which store, and how long it has to answer.
type storeFlags struct {
	storeFlag
	Timeout time.Duration `env:"LEADERSHIP_TIMEOUT" default:"10s" placeholder:"10s" help:"How long to wait for the store's answer. Default: 10s."`
}

// electionFlag says which election.
type electionFlag struct {
	Election string `env:"LEADERSHIP_ELECTION" placeholder:"NAME" help:"Name of the election, such as database/primary."`
}

// electionFlags say which election of which store, and how long the store has to answer.
type electionFlags struct {
	storeFlags
	electionFlag
}

// outputFlags say how to print.
type outputFlags struct {
	JSON bool `help:"Print JSON, for programs."`
}

func (f storeFlag) check() error {
	if f.Store == "" {
		return missing("store", "URL")
	}
	u, err := store.ParseURL(f.Store)
	if err == nil && u.Scheme == "memory" {
		err = &failure{code: exitUsage, err: errors.New("a memory store exists in one process alone, and not in this one")}
	}
	return err
}

func (f storeFlags) check() error {
	if err := f.storeFlag.check(); err != nil {
		return err
	}
	if f.Timeout <= 0 {
		return &failure{code: exitUsage, err: fmt.Errorf("--timeout=%v is not more than zero", f.Timeout)}
	}
	return nil
}

func (f electionFlag) check() error {
	if f.Election == "" {
		return missing("election", "NAME")
	}
	return store.CheckElection(f.Election)
}

func (f electionFlags) check() error {
	if err := f.storeFlags.check(); err != nil {
		return err
	}
	return f.electionFlag.check()
}

func missing(flag, value string) error {
	return &failure{
		code:   exitUsage,
		err:    fmt.Errorf("no %s is given", flag),
		advice: fmt.Sprintf("give --%s=%s, set LEADERSHIP_%s, or write %q into the configuration file", flag, value, strings.ToUpper(flag), flag+": "+value),
	}
}

// address is the store's URL without user, password and options.
func (f storeFlag) address() string {
	u, err := store.ParseURL(f.Store)
	if err != nil {
		return "the store"
	}
	return u.String()
}

// String names the election and the store, for people.
func (f electionFlags) String() string {
	return fmt.Sprintf("election %q on %s", f.Election, f.address())
}

// session is an open store.
type session struct {
	store.Store
	timeout time.Duration
	address string
}

// open opens the store. The caller closes it.
func (f storeFlag) open(ctx context.Context, options store.Options) (store.Store, error) {
	if options.Logger == nil { // the command says itself what fails
		options.Logger = slog.New(slog.DiscardHandler)
	}
	return store.Open(ctx, f.Store, &options)
}

// ask calls the store, which has the time of --timeout to answer.
func (s *session) ask(ctx context.Context, question func(context.Context) error) error {
	asking, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	err := question(asking)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case asking.Err() != nil:
		return &failure{exitUnavailable, fmt.Errorf("no answer within %v: %w", s.timeout, err), adviceUnavailable}
	}
	return err
}

// end closes the store. After a failure it does not wait for long: the program is about to end.
func (s *session) end(err error) error {
	const patience = 500 * time.Millisecond
	if err == nil {
		return s.Close()
	}
	_ = closeWithin(patience, s) // err counts
	return err
}

// closeWithin closes the store, and waits no longer than the patience.
func closeWithin(patience time.Duration, st store.Store) error {
	closed := make(chan error, 1)
	go func() { closed <- st.Close() }()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err := <-closed:
		return err
	case <-timer.C:
		return errors.New("the store does not answer")
	}
}

// interruptible returns a context that ends with the first SIGINT, SIGTERM or SIGHUP, or one of the further signals. The
// second one ends the program.
func interruptible(further ...os.Signal) (ctx context.Context, stop func()) {
	return endedBy(append([]os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}, further...)...)
}

// toldToEnd returns why a subcommand that runs until it is told to end has ended: nil after SIGTERM, with which a service
// manager ends it.
func toldToEnd(cause error) error {
	if cause == (interrupted{syscall.SIGTERM}) {
		return nil
	}
	return cause
}

// endedBy returns a context that ends with the first of the signals.
func endedBy(list ...os.Signal) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	for _, s := range list {
		if !signal.Ignored(s) { // nohup ignores SIGHUP
			signal.Notify(signals, s)
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case s := <-signals:
			signal.Stop(signals)
			number, _ := s.(syscall.Signal)
			cancel(interrupted{number})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
		<-ended
	}
}

// checkDirectory refuses the path of a store in files if not even the directory above exists. A candidate would make
// both, so the path might be misspelt. If only the last directory is missing, no candidate has stood yet.
func (f storeFlags) checkDirectory() error {
	u, err := store.ParseURL(f.Store)
	if err != nil || u.Scheme != "file" || len(u.Hosts) > 0 {
		return nil // another check says what is wrong
	}
	above := filepath.Dir("/" + u.Path)
	if _, err := os.Stat(above); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return &failure{exitUsage, fmt.Errorf("there is no election in /%s: the directory %s does not exist", u.Path, above), "correct the URL of the store"}
}

// with opens the store, calls do until a signal ends its context, and closes the store.
func (f storeFlags) with(do func(ctx context.Context, s *session) error) error {
	return f.withOptions(store.Options{}, do)
}

// withOptions is with, with options of the store.
func (f storeFlags) withOptions(options store.Options, do func(ctx context.Context, s *session) error) error {
	ctx, stop := interruptible()
	defer stop()
	if err := f.checkDirectory(); err != nil {
		return err
	}
	st, err := f.open(ctx, options)
	if err != nil {
		return err
	}
	s := &session{Store: st, timeout: f.Timeout, address: f.address()}
	return s.end(do(ctx, s))
}
