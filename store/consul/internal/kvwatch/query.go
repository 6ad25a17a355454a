package kvwatch

import (
	"context"
	"errors"
	"time"

	"github.com/go-leadership/leadership/store/consul/internal/agent"
	"github.com/hashicorp/consul/api"
)

// eachWait is the least wait of a new query for each one that runs.
const eachWait = 4 * time.Second

// start gives the watch a query of its own, if there may be one more; otherwise runShared has it. The caller holds mu; the
// watch has no query, and its state is known.
func (w *watch) start() {
	if !w.startQuery() {
		w.share()
	}
}

// mayQuery reports whether the agent takes a query for the key. The caller holds mu.
func (w *watch) mayQuery() bool { return !w.refusing || agent.Plain(w.key) }

// startQuery is start for a watch that runShared has. It reports whether the watch has a query.
func (w *watch) startQuery() bool {
	if !w.mayQuery() || w.queries >= agent.Queries || !w.client.Life.Go(w.follow) {
		return false
	}
	w.queries++
	w.queried = true
	return true
}

// follow asks for the next state, again and again, until there is nothing more to wait for, no user is left, or the query
// breaks. Then runShared finds what may have been missed, for all watches whose queries broke at once, and watches them
// until the next Confirm gives them queries again. If the agent refuses the key, runShared keeps it.
func (w *watch) follow() {
	ctx := w.client.Life.Background
	w.mu.Lock()
	poll := agent.Poll{Wait: max(agent.FirstWait, eachWait*time.Duration(w.queries))}
	w.mu.Unlock()
	for {
		w.mu.Lock()
		version, whole := w.version, w.whole()
		poll.Index = max(w.index, poll.Index)
		w.mu.Unlock()
		back, known, err := w.ask(ctx, &poll, version, whole)
		refused := errors.Is(err, agent.ErrKey)
		if ctx.Err() == nil && back && !refused {
			w.doubt()
		}
		if err == nil && (back || !known) {
			_, err = w.read(ctx)
			poll.Index = 0 // that of the state, which may have been set back
		}
		w.mu.Lock()
		w.refusing = w.refusing || refused
		if err != nil || ctx.Err() != nil || w.over() || len(w.users) == 0 {
			w.queries--
			w.queried = false
			if w.endIfUnused(); w.shared() {
				w.share()
			}
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
	}
}

// longList is the length of a directory from which on to read all of it at each change costs more than it saves
// (BenchmarkHerd).
const longList = 100

// whole reports whether the query is for the whole directory: all users need to know of their own keys when the watched key
// ends, and the directory was not long so far. The caller holds mu.
func (w *watch) whole() bool {
	if w.long {
		return false
	}
	for u := range w.users {
		if !u.needs(w.state) {
			return false
		}
	}
	return len(w.users) > 0
}

// ask asks once, and reports whether the state is known that the key had then.
func (w *watch) ask(ctx context.Context, poll *agent.Poll, version uint64, whole bool) (back, known bool, err error) {
	var read map[string]agent.Entry
	back, err = poll.Ask(ctx, w.client, func(q *api.QueryOptions) (meta *api.QueryMeta, err error) {
		var pairs api.KVPairs
		if whole {
			pairs, meta, err = w.client.KV().List(w.dir, q)
			err = agent.FromAgent(meta, err)
		} else {
			pairs = make(api.KVPairs, 1)
			pairs[0], meta, err = w.client.KV().Get(w.key, q)
		}
		read = entries(pairs)
		return meta, err
	})
	if len(read) >= longList {
		w.mu.Lock()
		w.long = true
		w.mu.Unlock()
	}
	if err != nil || back {
		return back, true, err
	}
	return false, w.accept(version, agent.Read{Entry: read[w.key], Index: poll.Index}, time.Time{}, read), nil
}
