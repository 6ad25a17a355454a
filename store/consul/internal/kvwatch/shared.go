package kvwatch

import (
	"context"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store/consul/internal/agent"
	"github.com/hashicorp/consul/api"
)

// mostRound is the time between two rounds while the service does not answer.
const mostRound = time.Second

// leastRound is the least time between two rounds of runShared: the most that a shared watch is late, besides the requests
// themselves.
const leastRound = 200 * time.Millisecond

// share has runShared look at once for what the watch, which has no query of its own, may have missed. The caller holds mu.
func (w *watch) share() {
	w.unverified = true
	w.wakeShared()
	if !w.running {
		w.running = w.client.Life.Go(w.runShared)
	}
}

func (all *Watcher) wakeShared() {
	select {
	case all.wake <- struct{}{}:
	default:
	}
}

// promote gives shared watches queries of their own, if there may be more.
func (all *Watcher) promote() {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, w := range all.byKey {
		if w.shared() && w.mayQuery() && !w.startQuery() {
			return
		}
	}
	all.wakeShared() // runShared ends if it has no watches left
}

// runShared watches all keys that have no query of their own, while there are any. It divides them into sections of keys that
// begin alike, and asks one query for each section, which returns when any key changes that begins so. Then transactions find
// out which of the section's watches have changed. A watch that joins is verified, too, since the query might have told its
// change before. So there are requests in each round while keys change or watches join, and none otherwise; their number
// grows with the section in which keys change, and not with the number of keys (TestVerifiedKeys).
func (all *Watcher) runShared() {
	background := all.client.Life.Background
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	plan := &plan{}
	for {
		began, round := time.Now(), leastRound
		list, unverified := all.sharing()
		if list == nil {
			return
		}
		if all.verify(background, unverified) == nil {
			all.ask(ctx, plan, list)
		} else { // no query is asked in an outage
			round = mostRound
			all.mu.Lock()
			all.suspect(unverified)
			all.mu.Unlock()
		}
		adapter.PauseFor(background, round-time.Since(began))
		select {
		case <-all.wake:
		case <-background.Done():
			return
		}
	}
}

// sharing returns the shared watches, and those among them that must be verified. If there are none any more, it returns nil:
// then runShared ends.
func (all *Watcher) sharing() (list, unverified []*watch) {
	all.mu.Lock()
	defer all.mu.Unlock()
	list = all.those((*watch).shared)
	all.running = list != nil
	for _, w := range list {
		if w.unverified {
			w.unverified = false
			unverified = append(unverified, w)
		}
	}
	return list, unverified
}

// suspect has runShared verify watches. The caller holds mu.
func (all *Watcher) suspect(list []*watch) {
	for _, w := range list {
		w.unverified = true
	}
	all.wakeShared()
}

// ask divides the watches, and asks a query for the next change in each section that has none. When it returns, the watches of
// the section are verified.
func (all *Watcher) ask(ctx context.Context, p *plan, list []*watch) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if p.update(all.prefix, list) {
		all.suspect(list)
	}
	for _, q := range p.sections {
		if q.ctx == nil {
			q.poll = agent.Poll{Index: 1, Wait: max(agent.FirstWait, eachWait*time.Duration(all.queries))}
			q.ctx, q.cancel = context.WithCancel(ctx)
		}
		q.asking = q.asking || all.client.Life.Go(func() {
			_, _ = q.poll.Ask(q.ctx, all.client, func(o *api.QueryOptions) (*api.QueryMeta, error) {
				_, meta, err := all.client.KV().Keys(q.prefix, "/", o)
				return meta, err
			})
			all.mu.Lock()
			defer all.mu.Unlock()
			q.asking = false
			all.suspect(all.those(func(w *watch) bool { return w.section == q }))
		})
	}
}
