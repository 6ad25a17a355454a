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

// share has runShared look at once for what a watch without a query of its own may have missed. The caller holds mu.
func (all *Watcher) share() {
	all.wakeShared()
	if !all.running {
		all.running = all.client.Life.Go(all.runShared)
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

// runShared watches all keys that have no query of their own, while there are any: by one query for the names directly
// below the prefix, which returns when any key below the prefix changes. Then transactions find out which of the watched
// keys have changed. A watch that joins is verified, too, since the query might have told its change before. So there are
// requests in each round while keys change or watches join, and none otherwise.
func (all *Watcher) runShared() {
	background := all.client.Life.Background
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	poll := agent.Poll{Index: 1, Wait: agent.FirstWait}
	changed := all.anyChange(ctx, &poll)
	for {
		began, round := time.Now(), leastRound
		list := all.sharing()
		if list == nil {
			return
		}
		if all.verify(background, list) != nil {
			round = mostRound
			all.wakeShared()
		}
		adapter.PauseFor(background, round-time.Since(began))
		select {
		case <-changed:
			changed = all.anyChange(ctx, &poll)
		case <-all.wake:
		case <-background.Done():
			return
		}
	}
}

// sharing returns the shared watches. It returns nil if there are none any more: then runShared ends.
func (all *Watcher) sharing() (list []*watch) {
	all.mu.Lock()
	defer all.mu.Unlock()
	list = all.those((*watch).shared)
	all.running = list != nil
	return list
}

// anyChange asks for the next change of anything below the prefix.
func (all *Watcher) anyChange(ctx context.Context, poll *agent.Poll) <-chan struct{} {
	changed := make(chan struct{}, 1)
	all.client.Life.Go(func() {
		_, _ = poll.Ask(ctx, all.client, func(q *api.QueryOptions) (*api.QueryMeta, error) {
			_, meta, err := all.client.KV().Keys(all.prefix, "/", q)
			return meta, err
		})
		changed <- struct{}{}
	})
	return changed
}
