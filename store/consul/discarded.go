package consul

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
)

// Sessions that are not the store's and might be at the service: those given up, those whose creation was not answered,
// and those being created. They are cleared away in the background, and by Close.

// discard adds a session to those to clear away.
func (s *Store) discard(sess *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.discarded[sess] = struct{}{}
}

// retire clears a discarded session away, for as long as there can be one.
func (s *Store) retire(sess *session) {
	began, limit := store.Now(), 3*max(s.config.TTL, leastSessionTTL)
	for began.Since(time.Now()) < limit && s.life.Background.Err() == nil {
		ctx, cancel := context.WithTimeout(s.life.Background, requestLimit)
		err := s.clearAway(ctx, sess)
		cancel()
		if err == nil {
			break
		}
		if !adapter.Uncertain(err) { // the token may be replaced yet
			adapter.PauseFor(s.life.Background, time.Second)
		}
		adapter.Pause(s.life.Background)
	}
	if s.life.Background.Err() == nil {
		s.mu.Lock()
		delete(s.discarded, sess)
		s.mu.Unlock()
		close(sess.gone) // destroyed, or expired
	}
}

// clearAway destroys a session and removes its check. A session whose id was never told is found by its name.
func (s *Store) clearAway(ctx context.Context, sess *session) error {
	s.mu.Lock()
	var ids []string
	if sess.id != "" {
		ids = []string{sess.id}
	}
	tried := sess.tried
	s.mu.Unlock()
	if ids == nil && tried {
		list, meta, err := s.client.Session().List(s.consistent(ctx))
		if err = agents(meta, err); err != nil {
			return errors.Join(s.explain(ctx, err), s.deregister(ctx, sess.check))
		}
		for _, other := range list {
			if other.Name == sess.name {
				ids = append(ids, other.ID)
			}
		}
	}
	var errs []error
	for _, id := range ids {
		errs = append(errs, s.destroy(ctx, id))
	}
	return errors.Join(append(errs, s.deregister(ctx, sess.check))...)
}

// destroy destroys a session.
func (s *Store) destroy(ctx context.Context, id string) error {
	var done bool
	_, err := s.client.Raw().Write("/v1/session/destroy/"+id, nil, &done, s.writeOptions(ctx))
	if err == nil && !done {
		err = &oddAnswer{"a session was not destroyed"}
	}
	return s.explain(ctx, err)
}

// clearDiscarded clears away what is left when the store is closed, once.
func (s *Store) clearDiscarded(ctx context.Context) {
	s.mu.Lock()
	list := slices.Collect(maps.Keys(s.discarded))
	s.mu.Unlock()
	var left sync.WaitGroup
	turns := make(chan struct{}, burst)
	for _, sess := range list {
		turns <- struct{}{}
		left.Go(func() {
			defer func() { <-turns }()
			_ = s.clearAway(ctx, sess)
		})
	}
	left.Wait()
}
