package consul

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store/consul/internal/agent"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/hashicorp/consul/api"
)

// The leader lock makes the next leader wait, if there is a lock-delay, until a leader that did not resign has been gone
// for that long.
//
// Consul's lock-delay applies to the name of a key: the key can't be locked for that time after a session that held it
// has ended. Ballots have names of their own, so it never applies to them. So a leader locks a key that all share. A leader
// that resigns unlocks it. If the leader's session ends, Consul refuses the lock to every session for the delay.
//
// If only the leader's ballot was deleted, its session still holds the lock until that leader has noticed. If it never
// does, its lock is replaced after the delay: the ballot that is first stands, so no other's lock is valid.
//
// To the engine the lock is an obstacle ahead of every ballot. It goes when it is time to try and take the lock; a try
// that fails names the next obstacle.

// obstacle returns the key of the obstacle that stands for the nth try to take the lock.
func obstacle(n int) string { return "\x00" + strconv.Itoa(n) }

// obstacleOf returns the number of an obstacle's key.
func obstacleOf(key string) (n int, ok bool) {
	rest, ok := strings.CutPrefix(key, "\x00")
	if ok {
		n, _ = strconv.Atoi(rest)
	}
	return n, ok
}

// watchObstacle watches an obstacle.
func (d *driver) watchObstacle(n int, tell engine.Tell) engine.Watch {
	gone := engine.News{State: &engine.State{}}
	if n == 0 {
		tell(gone)
		return engine.Watch{Stop: func() {}}
	}
	tell(engine.News{State: &engine.State{Token: 1}})
	ctx, stop := context.WithCancel(d.life.Background)
	d.life.Go(func() {
		defer stop()
		adapter.PauseFor(ctx, min(max(d.config.LockDelay/20, 10*time.Millisecond), time.Second))
		if ctx.Err() == nil {
			tell(gone)
		}
	})
	return engine.Watch{Stop: stop}
}

// takeLock tries to take the leader lock for an entry that has no ballot ahead.
func (d *driver) takeLock(ctx context.Context, e engine.Entry) (engine.Place, error) {
	st, key := standingOf(e), d.layout.lock(e.Election)
	id, _ := owner(e.Key)
	ops := []*api.KVTxnOp{{Verb: api.KVCheckSession, Key: e.Key, Session: id}}
	st.mu.Lock()
	if !st.taken.IsZero() && time.Since(st.taken) >= d.config.LockDelay {
		ops = append(ops, &api.KVTxnOp{Verb: api.KVDelete, Key: key})
	}
	st.locked = true
	st.mu.Unlock()
	_, err := d.client.Commit(ctx, append(ops, &api.KVTxnOp{Verb: api.KVLock, Key: key, Session: id})...)
	r := agent.RefusalIn(err)
	switch {
	case err == nil:
		return engine.Place{}, nil
	case r == nil:
		return engine.Place{}, err
	case r.Failed(0):
		return engine.Place{}, d.stands(ctx, e.Key)
	case r.Says("already held"):
		st.mu.Lock()
		if st.taken.IsZero() {
			st.taken = time.Now()
		}
		st.mu.Unlock()
	}
	n, _ := obstacleOf(e.Place.Nearest)
	return engine.Place{Nearest: obstacle(n + 1), More: true}, nil
}

// releaseLocks removes the ballots of who leads before the session is destroyed: a store that is closed has resigned.
func (s *session) releaseLocks(ctx context.Context, led []engine.Removal) {
	if s.driver.config.LockDelay == 0 {
		return
	}
	var left sync.WaitGroup
	turns := make(chan struct{}, agent.Burst)
	for _, r := range led {
		turns <- struct{}{}
		left.Go(func() {
			defer func() { <-turns }()
			_ = s.Remove(ctx, r)
		})
	}
	left.Wait()
}
