package leadership

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-leadership/leadership/internal/teller"
	"github.com/go-leadership/leadership/internal/trouble"
	"github.com/go-leadership/leadership/store"
)

// A service that is restored from an older copy gives out tokens that are lower than earlier ones. A resource that has
// seen a higher token refuses a leader with such a token, so a candidate that knows a higher one does not lead. Each
// ballot and its removal raise the service's index. If the gap is small, the candidate raises it until the tokens are
// higher than before; then a candidate that starts anew leads with such a token, too. If the gap is larger, an operator
// decides, and the candidate waits, with a ballot in the queue, so that an operator finds it there.

// mostRaised is the largest gap that a candidate closes: some minutes, and some ten megabytes in etcd's history.
const mostRaised = 100_000

// tokens is what a candidate knows of the tokens of its election.
type tokens struct {
	highest uint64 // that it was given
	at      time.Time
	low     uint64 // the last one, while tokens are lower than the highest; otherwise 0
	since   time.Time
	told    teller.Reminder // of low ones
}

// cast casts a ballot whose token is higher than all that this candidate has seen. Under Run it waits until the service
// gives one.
func (c *Candidate) cast(ctx context.Context, serves bool) (store.Ballot, error) {
	for {
		ballot, err := c.store.Cast(trouble.With(ctx, c.failed), c.election, c.value) // Status says why there is no answer
		if err != nil {
			return nil, err
		}
		token := ballot.Token()
		if token > c.tokens.highest {
			if c.tokens.low != 0 {
				c.log(slog.LevelInfo, "tokens are higher than before again", "token", token, "before", c.tokens.highest,
					"after", time.Since(c.tokens.since).Round(time.Millisecond))
			}
			c.tokens = tokens{highest: token, at: time.Now()}
			return ballot, nil
		}
		raises := c.tokens.highest-token <= mostRaised && token > c.tokens.low
		if c.tokens.low == 0 {
			c.tokens.since = time.Now()
		}
		c.tokens.low = token
		err = c.tokensRegressed(ballot, raises, serves)
		if err == nil && !raises {
			c.standLow(ctx, ballot)
		}
		_ = c.withdraw(ballot)
		if err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// tokensRegressed reports a token that is not higher than before, when it is time to. It returns the error of Campaign if
// the candidate can't close the gap.
func (c *Candidate) tokensRegressed(ballot store.Ballot, raises, serves bool) error {
	due := c.tokens.told.Due()
	if !due && (raises || serves) {
		return nil
	}
	what, in := "it casts ballots until its tokens are higher", time.Duration(0)
	if !raises {
		in = longestBackoff
		what = fmt.Sprintf("raise the service's index by more than %d", c.tokens.highest-ballot.Token())
		if b, ok := ballot.(interface{ RaiseTokens() string }); ok && b.RaiseTokens() != "" {
			what += ": " + b.RaiseTokens()
		}
		what += ". Or reset what remembers tokens, and then restart this process"
	}
	err := fmt.Errorf("%w: election %q gave token %d, and %d at %s: the store was set back, such as by a restore from an "+
		"older copy, and this candidate does not lead with a token that fenced resources refuse; %s",
		ErrTokenRegressed, c.election, ballot.Token(), c.tokens.highest, c.tokens.at.Format(time.RFC3339), what)
	if !serves && !raises {
		return err
	}
	c.failed(err)
	c.notify(Event{Kind: AttemptFailed, Err: err, RetryIn: in})
	return nil
}

// standLow lets a ballot with a low token stand until it is time to look again.
func (c *Candidate) standLow(ctx context.Context, ballot store.Ballot) {
	again := time.NewTimer(longestBackoff)
	defer again.Stop()
	select {
	case <-again.C:
	case <-ctx.Done():
	case <-ballot.ResignationRequested():
	case <-ballot.Lost():
		sleep(ctx, shortestAfterError)
	}
}
