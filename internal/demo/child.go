package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
)

// roleVariable is the environment variable that makes the program one of the demo's processes.
const roleVariable = "LEADERSHIP_DEMO_ROLE"

// role says which process of the demo this is.
type role struct{ Name, URL string }

// event is something that a process says, or that the demo does. All processes are on this machine and read the same
// clock, so their times can be compared.
type event struct {
	At    time.Time
	Who   string
	What  string // one of the constants below; empty if there is nothing but the text
	Text  string // to be shown, one line
	Token uint64 // if elected
	Name  string // if learnt: of the leader; empty if there is none
	Leads bool   // if woke: whether the process sees itself as leader
}

const (
	elected = "elected"
	ended   = "ended" // its term
	woke    = "woke"
	learnt  = "learnt"
	garbled = "garbled" // what a process said
)

func (e event) String() string {
	return fmt.Sprintf("%s  %-8s  %s", e.At.Format("15:04:05.000"), e.Who, e.Text)
}

// Child plays a candidate or the follower and exits, if Run has started this program for that. Otherwise it returns at
// once. A program that calls Run calls Child at the beginning of main.
func Child() {
	text, ok := os.LookupEnv(roleVariable)
	if !ok {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var r role
	err := json.Unmarshal([]byte(text), &r)
	if err == nil {
		err = r.play(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// play plays the role until ctx ends.
func (r role) play(ctx context.Context) error {
	st, err := store.Open(ctx, r.URL, &store.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	part := r.candidate
	if r.Name == follower {
		part = r.follower
	}
	err = part(ctx, st)
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, st.Close())
}

// failed says what will be tried again.
func (r role) failed(e leadership.Event) {
	if e.Kind == leadership.AttemptFailed {
		r.say(event{}, "will try again in %v: %v", e.RetryIn, e.Err)
	}
}

// candidate stands for election, again and again.
func (r role) candidate(ctx context.Context, st store.Store) error {
	c, err := leadership.NewCandidate(st, election, r.Name, &leadership.CandidateOptions{Logger: slog.New(slog.DiscardHandler), Events: r.failed})
	if err != nil {
		return err
	}
	go r.wake(c) // ends with the process
	r.say(event{}, "stands for election")
	return c.Run(ctx, func(ctx context.Context, term *leadership.Term) error {
		r.say(event{What: elected, Token: term.Token()}, "leads, token %d", term.Token())
		err := term.Acknowledge(ctx) // now followers are told
		if err == nil {
			<-ctx.Done()
			err = context.Cause(ctx)
		}
		r.say(event{What: ended}, "leads no longer: %v", err)
		return err
	})
}

// wake says, each time this process goes on after it was frozen, whether the candidate sees itself as leader.
func (r role) wake(c *leadership.Candidate) {
	woken := make(chan os.Signal, 1)
	signal.Notify(woken, signals.thaw)
	for range woken {
		leads := c.IsLeader()
		sees := map[bool]string{true: "sees", false: "does not see"}[leads]
		r.say(event{What: woke, Leads: leads}, "woke, and %s itself as leader", sees)
	}
}

// follower tells who leads.
func (r role) follower(ctx context.Context, st store.Store) error {
	f, err := leadership.NewFollower(st, election, &leadership.FollowerOptions{Logger: slog.New(slog.DiscardHandler), Events: r.failed})
	if err != nil {
		return err
	}
	defer f.Stop()
	for leader := range f.Changes(ctx) {
		text := "knows that there is no leader"
		if leader.Revision != 0 {
			text = "knows that " + leader.Value + " leads"
		}
		r.say(event{What: learnt, Name: leader.Value}, "%s", text)
	}
	return f.Err()
}

// say prints an event. All processes print into one pipe, each event in one write. So a cause is read before its
// effect.
func (r role) say(e event, format string, args ...any) {
	e.At, e.Who, e.Text = time.Now(), r.Name, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")
	_ = json.NewEncoder(os.Stdout).Encode(e) // if this fails, Run has ended, and this process is about to be killed
}
