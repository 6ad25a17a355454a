// Singleton runs a job on one machine of many, once per period. Start it on as many as you like:
//
//	singleton -store 'etcd://10.0.0.1:2379/?ttl=10s' -every 1m
//
// The process that leads works; the others wait. If it dies, the next one works within the bound of the store. The
// test beside this file shows how to test such a program in virtual time, with a leader that is cut off.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	_ "github.com/go-leadership/leadership/store/all"
)

const election = "singleton/report"

func main() {
	url := flag.String("store", "file:///dev/shm/singleton?ttl=5s", "`URL` of the store")
	every := flag.Duration("every", time.Minute, "how often the job runs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx, *url, *every); err != nil {
		log.Fatal(err)
	}
}

// run works in turn with all processes that use the same store, until ctx ends.
func run(ctx context.Context, url string, every time.Duration) error {
	st, err := store.Open(ctx, url, &store.Options{Logger: slog.Default()})
	if err != nil {
		return err
	}
	defer st.Close()
	err = elect(ctx, st, fmt.Sprint("process ", os.Getpid()), &job{every: every, work: report})
	if ctx.Err() != nil {
		return nil // a signal
	}
	return err
}

// elect does the job whenever this process leads, until ctx ends.
func elect(ctx context.Context, st store.Store, name string, j *job) error {
	c, err := leadership.NewCandidate(st, election, name, nil)
	if err != nil {
		return err
	}
	return c.Run(ctx, j.lead)
}

// report stands for the work. It ends with its context. Whatever it writes to gets the token, and refuses lower ones
// than the highest that it has seen.
func report(ctx context.Context, token uint64) error {
	fmt.Println(time.Now().Format(time.TimeOnly), "report, with token", token)
	return nil
}

// job is work to do once per period.
type job struct {
	every time.Duration
	work  func(ctx context.Context, token uint64) error
}

// lead works at once and then once per period, until the term ends. If the work fails, the next process in line takes
// over.
func (j *job) lead(ctx context.Context, term *leadership.Term) error {
	if err := term.Acknowledge(ctx); err != nil { // from now on "leadership leader" shows this process
		return err
	}
	period := time.NewTicker(j.every)
	defer period.Stop()
	for {
		if err := j.work(ctx, term.Token()); err != nil {
			return err
		}
		select {
		case <-period.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
