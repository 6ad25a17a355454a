// Failover is one process of an election: a candidate, which leads when its turn comes, or a follower, which prints
// who leads. Start as many of each as you like, and end them in any way:
//
//	failover candidate -name a
//	failover follower -name f
//
// The default of -store is file:///dev/shm/failover?ttl=3s, for processes on one machine. With the URL of a service they
// can be on many: -store 'etcd://10.0.0.1:2379/?ttl=3s'.
//
// It prints a line for each event: the time, its name, and what happened.
//
//	2026-01-02T15:04:05.000000Z a standing
//	2026-01-02T15:04:05.010000Z a elected token=12
//	2026-01-02T15:04:05.020000Z a acknowledged
//	2026-01-02T15:04:06.000000Z a ended cause="stopped: terminated signal received"
//	2026-01-02T15:04:05.000000Z f leader none
//	2026-01-02T15:04:05.030000Z f leader name="a"
//
// SIGTERM and SIGINT end it in order: a leader resigns, so that its successor leads at once.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	_ "github.com/go-leadership/leadership/store/all"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends it the hard way
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "failover:", err)
		os.Exit(1)
	}
}

// run does what the arguments say, until ctx ends, and prints to out.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("failover candidate|follower", flag.ExitOnError)
	url := flags.String("store", "file:///dev/shm/failover?ttl=3s", "`URL` of the store")
	election := flags.String("election", "failover", "`name` of the election")
	name := flags.String("name", fmt.Sprint("process-", os.Getpid()), "this process's `name`, by which others know it")
	var mode string
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		mode, args = args[0], args[1:]
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	play, ok := map[string]func(*process, context.Context) error{
		"candidate": (*process).candidate,
		"follower":  (*process).follower,
	}[mode]
	switch {
	case !ok:
		return fmt.Errorf("the first argument is %q; it has to be candidate or follower", mode)
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	trouble := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	st, err := store.Open(ctx, *url, &store.Options{Logger: trouble})
	if err != nil {
		return err
	}
	p := &process{store: st, election: *election, name: *name, out: out, log: trouble}
	return errors.Join(play(p, ctx), st.Close())
}

// process is this process's part in the election.
type process struct {
	store          store.Store
	election, name string
	out            io.Writer
	log            *slog.Logger
}

// candidate stands for election, again and again, until ctx ends.
func (p *process) candidate(ctx context.Context) error {
	c, err := leadership.NewCandidate(p.store, p.election, p.name, &leadership.CandidateOptions{Logger: p.log})
	if err != nil {
		return err
	}
	p.say("standing")
	if err := c.Run(ctx, p.lead); ctx.Err() == nil {
		return err
	}
	return nil
}

// lead is called each time the candidate has won; ctx ends when it leads no longer.
func (p *process) lead(ctx context.Context, term *leadership.Term) error {
	p.say("elected token=%d", term.Token())
	// Here a database, say, would become primary, and send the token with its writes.
	err := term.Acknowledge(ctx) // followers are told now, not before
	if err == nil {
		p.say("acknowledged")
		<-ctx.Done()
		err = context.Cause(ctx)
	}
	p.say("ended cause=%q", err)
	if !errors.Is(err, leadership.ErrStopped) {
		p.say("standing") // which Run does when this function has returned
	}
	return err
}

// follower tells who leads, until ctx ends.
func (p *process) follower(ctx context.Context) error {
	f, err := leadership.NewFollower(p.store, p.election, &leadership.FollowerOptions{Logger: p.log})
	if err != nil {
		return err
	}
	defer f.Stop()
	for leader := range f.Changes(ctx) {
		if leader.Revision == 0 {
			p.say("leader none")
		} else {
			p.say("leader name=%q", leader.Value)
		}
	}
	if ctx.Err() == nil {
		return errors.New("the follower gave up, for the reason logged above")
	}
	return nil
}

// say prints an event in one write, so that the lines of several processes can share a file.
func (p *process) say(format string, args ...any) {
	at := time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")
	fmt.Fprintf(p.out, "%s %s %s\n", at, p.name, fmt.Sprintf(format, args...))
}
