package leadership

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-leadership/leadership/internal/teller"
	"github.com/go-leadership/leadership/store"
)

// A service that is restored from an older copy gives out tokens that are lower than earlier ones. A resource that has
// seen a higher token refuses a leader with such a token, so a candidate that knows a higher one does not lead. Each
// ballot and its removal raise the service's index. If the gap is small, the candidate raises it until the tokens are
// higher than before; then a candidate that starts anew leads with such a token, too. If the gap is larger, an operator
// decides, and the candidate waits. It always has one ballot in the queue, so that an operator finds it there.

// mostRaised is the largest gap that a candidate closes: some minutes, and some ten megabytes in etcd's history.
const mostRaised = 100_000

// seen is the highest token that a candidate has seen.
type seen struct {
	token uint64
	at    time.Time
	gap   *gap // nil while tokens grow
}

// gap is what a candidate knows of tokens that are lower than before.
type gap struct {
	began time.Time
	told  teller.Reminder
}

// cast casts a ballot whose token is higher than all that this candidate has seen. Under Run it waits until the service
// gives one.
func (c *Candidate) cast(d *drive, fit context.Context) (store.Ballot, error) {
	var low store.Ballot // the last one, whose token is too low
	giveBack := func() {
		if low != nil {
			c.withdraw(low)
		}
	}
	defer func() { giveBack() }()
	for {
		ballot, err := c.castBallot(d.ctx)
		if err != nil {
			return nil, err
		}
		token := ballot.Token()
		if token > c.seen.token {
			c.tokensGrow(token)
			return ballot, nil
		}
		raises := c.seen.token-token <= mostRaised && (low == nil || token > low.Token())
		giveBack()
		low = ballot
		if err := c.tokensRegressed(d, ballot, raises); err != nil {
			return nil, err
		}
		if !raises {
			c.standLow(d.ctx, fit, ballot)
		}
		for _, ctx := range []context.Context{d.ctx, fit} {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
		}
	}
}

// tokensGrow notes a token that is higher than before.
func (c *Candidate) tokensGrow(token uint64) {
	if g := c.seen.gap; g != nil {
		c.say(slog.LevelInfo, "tokens are higher than before again", "token", token, "before", c.seen.token,
			"after", time.Since(g.began).Round(time.Millisecond))
	}
	c.seen = seen{token: token, at: time.Now()}
}

// tokensRegressed reports a token that is not higher than before, when it is time to. It returns the error of Campaign if
// the candidate can't close the gap.
func (c *Candidate) tokensRegressed(d *drive, ballot store.Ballot, raises bool) error {
	if c.seen.gap == nil {
		c.seen.gap = &gap{began: time.Now()}
	}
	due := c.seen.gap.told.Due()
	if !due && (raises || d.serves) {
		return nil
	}
	what := "it casts ballots until its tokens are higher"
	if !raises {
		what = fmt.Sprintf("raise the service's index by more than %d", c.seen.token-ballot.Token())
		if b, ok := ballot.(interface{ RaiseTokens() string }); ok && b.RaiseTokens() != "" {
			what += ": " + b.RaiseTokens()
		}
		what += ". Or reset what remembers tokens, and then restart this process"
	}
	err := fmt.Errorf("%w: election %q gave token %d, and %d at %s: the store was set back, such as by a restore from an "+
		"older copy, and this candidate does not lead with a token that fenced resources refuse; %s",
		ErrTokenRegressed, c.election, ballot.Token(), c.seen.token, c.seen.at.Format(time.RFC3339), what)
	if !d.serves && !raises {
		return err
	}
	in := time.Duration(0)
	if !raises {
		in = lastBackoff
	}
	c.failed(err)
	c.tell(event{what: attemptFailed, err: err, time: in})
	return nil
}

// standLow lets a ballot with a low token stand until it is time to look again.
func (c *Candidate) standLow(ctx, fit context.Context, ballot store.Ballot) {
	again := time.NewTimer(lastBackoff)
	defer again.Stop()
	select {
	case <-again.C:
	case <-ctx.Done():
	case <-fit.Done():
	case <-ballot.ResignationRequested():
	case <-ballot.Lost():
		sleep(ctx, errorBackoff)
	}
}
