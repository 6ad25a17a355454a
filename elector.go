package leadership

import (
	"context"
	"fmt"
)

// Elector returns what a scheduler asks before it runs a job, such as gocron with its option WithDistributedElector.
// Its IsLeader returns nil if the candidate leads at that very call and has acknowledged, and otherwise an error that
// matches ErrNotElected. It sends nothing.
//
// The answer is worth no more than that of Candidate.IsLeader: the term might end while the job runs. So the job takes
// its context and its fencing token from Term. No other candidate waits for the job, unless the function given to Run
// does.
func (c *Candidate) Elector() interface {
	IsLeader(ctx context.Context) error
} {
	return elector{c}
}

type elector struct{ c *Candidate }

func (e elector) IsLeader(context.Context) error {
	t := e.c.Term()
	if t == nil {
		return fmt.Errorf("%w: the candidate does not lead in election %q", ErrNotElected, e.c.election)
	}
	if !t.Acknowledged() {
		return fmt.Errorf("%w: the candidate has not acknowledged in election %q", ErrNotElected, e.c.election)
	}
	return nil
}
