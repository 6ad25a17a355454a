package reference

import (
	"context"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
)

// Observe implements store.Store.
func (s *Store) Observe(ctx context.Context, election string, prev *store.Known) (store.Known, error) {
	if err := store.CheckElection(election); err != nil && !s.has(NamesUnchecked) {
		return store.Known{}, err
	}
	if s.has(CallsOutliveClose) && s.life.Calls.Err() == nil {
		return s.observe(ctx, election, prev)
	}
	ctx, done, err := s.life.Call(ctx)
	if err == nil {
		defer done()
		var known store.Known
		// If the store is closed meanwhile, what was read might be no more than what Close itself does.
		if known, err = s.observe(ctx, election, prev); err == nil && s.life.Calls.Err() == nil {
			return known, nil
		}
	}
	if err == nil {
		err = store.ErrClosed
	}
	return store.Known{}, s.life.Fail("read the leader", election, err)
}

func (s *Store) observe(ctx context.Context, election string, prev *store.Known) (store.Known, error) {
	for {
		known, isNews, err := s.look(ctx, election, prev)
		switch {
		case ctx.Err() != nil:
			return store.Known{}, context.Cause(ctx)
		case err != nil && s.has(OutageIsAnError):
			return store.Known{}, err
		case err == nil && isNews:
			return known, nil
		case s.has(KnownReturnedAgain) && prev != nil:
			adapter.PauseFor(ctx, s.ttl/1000) // in virtual time the caller would loop for ever
			return *prev, nil
		}
	}
}

// look reads the leader. AsOf is when that request was sent, so that nothing depends on the order in which answers and
// notifications arrive. If the answer is no news, look waits until there is a notification, or AsOf has to be later.
func (s *Store) look(ctx context.Context, election string, prev *store.Known) (known store.Known, isNews bool, err error) {
	if s.has(OutageIsAnError) && s.line.IsCut() {
		adapter.PauseFor(ctx, s.ttl/1000)
		return known, false, store.ErrUnavailable
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	known.AsOf = time.Now()
	var notified []<-chan struct{}
	err = s.line.call(ctx, func() {
		var changed <-chan struct{}
		known.Leader, changed = s.read(election, prev == nil)
		notified = append(notified, s.line.notify(ctx, changed))
	})
	defer func() {
		stop()
		for _, n := range notified {
			<-n
		}
	}()
	if s.has(FreshFromAnswer) {
		known.AsOf = time.Now()
	}
	if err != nil || prev == nil || known.Leader != prev.Leader || known.AsOf.Sub(prev.AsOf) >= s.fresh() {
		return known, true, err
	}
	switch {
	case s.has(KnownReturnedAgain):
		return known, false, nil
	case s.has(FreshBeforeNews):
		known.AsOf = s.nextRenewal(ctx, known.AsOf)
		return known, true, nil
	case s.has(LeaderWatchedLate) && s.line.Delayed():
		_ = s.line.call(ctx, func() {
			_, changed := s.service.get(election)
			notified = append(notified, s.line.notify(ctx, changed))
		})
	}
	due := time.NewTimer(time.Until(prev.AsOf.Add(s.fresh())))
	defer due.Stop()
	select {
	case <-notified[len(notified)-1]: // ctx has ended, too
	case <-due.C:
	}
	return known, false, nil
}

// fresh returns how much later AsOf has to be for a caller who knows the leader.
func (s *Store) fresh() time.Duration {
	if s.has(FreshNever) || s.has(LeaderWatchedLate) || s.has(FreshUntilAnOutage) && s.line.wasCut.Load() {
		return 1000 * time.Hour
	}
	return s.ttl / 4
}

// nextRenewal waits until a renewal of the session has been answered, and returns when it was sent.
func (s *Store) nextRenewal(ctx context.Context, after time.Time) time.Time {
	for ctx.Err() == nil {
		s.mu.Lock()
		renewal := s.renewal
		s.mu.Unlock()
		if renewal.After(after) {
			return renewal
		}
		adapter.PauseFor(ctx, s.ttl/1000)
	}
	return after
}

// read returns the leader, and a channel that is closed when it changes.
func (s *Store) read(election string, atOnce bool) (store.Leader, <-chan struct{}) {
	k, changed := s.service.get(election)
	leader := s.record(k)
	switch {
	case s.has(LeaderUnacknowledged) && k == nil:
		if list, _ := s.service.list(ballots(election)); len(list) > 0 {
			leader = leaderOf(list[0])
		}
	case s.has(LeaderBackInTime) && atOnce:
		s.mu.Lock()
		s.reads++
		behind := s.reads%2 == 0
		s.mu.Unlock()
		if behind {
			leader = s.service.replica(election)
		}
	}
	return leader, changed
}

// record is the leader that an acknowledgement's key shows.
func (s *Store) record(k *key) store.Leader {
	leader := leaderOf(k)
	if s.has(RevisionConstant) && k != nil {
		leader.Revision = k.created
	}
	return leader
}
