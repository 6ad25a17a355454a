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
// when the wait is over. The wait begins short and doubles as long as nothing changes (TestPoll, for each pause and wait).
type Poll struct {
	Index uint64        // of what is known; at least 1
	Wait  time.Duration // of the next query

	pause time.Duration // the last one
	slow  bool          // there is one before the next query
}

// Ask asks once. A query that is not answered RequestLimit after its wait is given up. Ask reports back if what is known must
// be read anew: after an error, if the index was set back, or if the answer came at once without news. Then the servers'
// state was replaced by a snapshot, the server that answers is behind, or an agent did not answer. After back it waits before
// it asks, from 50 ms to a second.
func (p *Poll) Ask(ctx context.Context, c *Client, ask func(*api.QueryOptions) (*api.QueryMeta, error)) (back bool, err error) {
	if p.slow {
		p.pause = min(max(2*p.pause, firstPause), mostPause)
		adapter.PauseFor(ctx, p.pause)
	}
	p.slow = true
	asked := time.Now()
	limited, cancel := context.WithTimeout(ctx, p.Wait+p.Wait/16+RequestLimit) // agents add up to a sixteenth
	defer cancel()
	q := c.ReadOptions(limited)
	q.WaitIndex, q.WaitTime = p.Index, p.Wait
	meta, err := ask(q)
	if err != nil {
		return true, c.Explain(err)
	}
	known, waited := p.Index, time.Since(asked) > p.Wait/2
	p.Index = max(1, meta.LastIndex)
	if waited {
		p.pause = 0
	}
	switch {
	case meta.LastIndex > known:
		p.slow = false
		return false, nil
	case meta.LastIndex == known && waited:
		p.slow = false
		p.Wait = min(2*p.Wait, mostWait)
		return false, nil
	}
	return true, nil
}
