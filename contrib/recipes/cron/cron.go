// Package cron runs a job with gocron in one process of many.
package cron

import (
	"context"
	"log"

	"github.com/go-co-op/gocron/v2"
	"github.com/go-leadership/leadership"
)

// Run runs the job at its times while the candidate leads. The job gives the token to what it writes to.
func Run(ctx context.Context, c *leadership.Candidate, times gocron.JobDefinition, job func(ctx context.Context, token uint64) error) error {
	s, err := gocron.NewScheduler(gocron.WithDistributedElector(elector{c}))
	if err != nil {
		return err
	}
	defer s.Shutdown()
	running := make(chan struct{}, 1) // holds one while the job runs
	_, err = s.NewJob(times, gocron.NewTask(func() {
		select {
		case running <- struct{}{}:
			defer func() { <-running }()
		default: // it still runs
			return
		}
		term, leads := c.Term()
		if !leads { // it has ended since the scheduler asked
			return
		}
		if err := job(term.Context(), term.Token()); err != nil {
			log.Print(err)
		}
	}))
	if err != nil {
		return err
	}
	s.Start()
	return c.Run(ctx, func(ctx context.Context, term *leadership.Term) error {
		err := leadership.Lead(ctx, term)
		running <- struct{}{} // wait for the job: the next leader leads after that
		<-running
		return err
	})
}

// elector lets the scheduler run jobs only while the candidate leads and has acknowledged.
type elector struct{ c *leadership.Candidate }

// IsLeader implements gocron.Elector. The term might end while the job runs.
func (e elector) IsLeader(context.Context) error {
	if term, leads := e.c.Term(); !leads || !term.Acknowledged() {
		return leadership.ErrNotElected
	}
	return nil
}
