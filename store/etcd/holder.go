package etcd

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/go-leadership/leadership/internal/opaque"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// holder is a session that holds the key of an acknowledgement, and is not known to have stood in the queue.
type holder struct {
	lease int64
	since time.Time // when the store found it first
}

// mayReplace returns nil if what is at the acknowledgement's key may be replaced, and otherwise who holds it.
func (b *ballot) mayReplace(ctx context.Context, found *mvccpb.KeyValue) error {
	s := b.store
	if found.Lease == 0 || found.Lease == b.session.id {
		return nil
	}
	for _, p := range b.predecessors {
		if p.lease == found.Lease {
			return nil
		}
	}
	resp, err := s.get(ctx, s.layout.dir(b.Election), clientv3.WithPrefix())
	if err != nil {
		return err
	}
	for _, p := range b.queue(resp.Kvs) {
		if p.lease == found.Lease { // it stands again, behind this one
			return nil
		}
	}
	key, now := string(found.Key), time.Now()
	s.mu.Lock()
	h := s.holders[key]
	if h.lease != found.Lease {
		h = holder{found.Lease, now}
		if s.holders == nil {
			s.holders = map[string]holder{}
		}
		s.holders[key] = h
	}
	s.mu.Unlock()
	name := fmt.Sprintf("lease %s, which holds the key %q with the value %q",
		strconv.FormatInt(found.Lease, 16), key, opaque.Shorten(string(found.Value)))
	if wait := s.config.TTL - now.Sub(h.since); wait > 0 {
		return fmt.Errorf("%s, has no ballot in this queue and may lead; it is replaced in %v", name, wait.Round(time.Second))
	}
	s.config.Logger.Warn("the acknowledgement of another is replaced", "store", s.life.Name, "holder", name)
	return nil
}

// free forgets who held the key.
func (s *Store) free(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.holders, key)
}
