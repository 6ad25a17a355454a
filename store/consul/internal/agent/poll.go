package agent

import (
	"context"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/hashicorp/consul/api"
)

const (
	// FirstWait is for how long an agent lets a blocking query wait at first.
	FirstWait = 5 * time.Second
	mostWait  = 5 * time.Minute

	firstPause = 50 * time.Millisecond
	mostPause  = time.Second
)

// Poll asks a blocking query again and again. An agent answers it when the index of what it asks for exceeds Index, or
// when the wait is over. The wait begins short and doubles as long as nothing changes: an agent holds on to a query that
// was given up until its wait is over (TestPoll, for each pause and wait).
type Poll struct {
	Index uint64        // of what is known; at least 1
	Wait  time.Duration // of the next query

	asked time.Time     // when the last query was sent
	held  time.Duration // for how long the agent may hold on to it
	pause time.Duration // the last one
	slow  bool          // there is one before the next query
}

// Change is what an answer says about what was known.
type Change int

// What an answer can say.
const (
	Same    Change = iota // the wait is over, nothing has changed
	Changed               // it may have changed
	// Back is said if the index was set back, or if the answer came at once without news: the servers' state was replaced
	// by a snapshot, the server that answers is behind, or an agent did not answer. What is known must be read anew.
	Back
)

// Ask asks once. After an error, and after Back, it waits before it asks, from 50 ms to a second.
func (p *Poll) Ask(ctx context.Context, c *Client, ask func(*api.QueryOptions) (*api.QueryMeta, error)) (Change, error) {
	if p.slow {
		p.pause = min(max(2*p.pause, firstPause), mostPause)
		adapter.PauseFor(ctx, p.pause)
	}
	p.slow, p.asked, p.held = true, time.Now(), p.Wait+p.Wait/16+time.Second // an agent adds up to a 16th
	q := c.ReadOptions(ctx)
	q.WaitIndex, q.WaitTime = p.Index, p.Wait
	meta, err := ask(q)
	if err != nil {
		return Back, c.Explain(err)
	}
	known, waited := p.Index, time.Since(p.asked) > p.Wait/2
	p.Index = max(1, meta.LastIndex)
	if waited {
		p.pause = 0
	}
	switch {
	case meta.LastIndex > known:
		p.slow = false
		return Changed, nil
	case meta.LastIndex == known && waited:
		p.slow = false
		p.Wait = min(2*p.Wait, mostWait)
		return Same, nil
	}
	return Back, nil
}

// Held returns when the agent has let go of the last query, if it was given up.
func (p *Poll) Held() time.Time { return p.asked.Add(p.held) }
