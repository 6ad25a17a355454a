package etcd

import (
	"context"
	"strings"

	"github.com/go-leadership/leadership/internal/adapter"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A cluster that is restored from a snapshot has the ballots again that were withdrawn since. One of a session that
// lives stands in the way of all behind it for as long as that session is renewed. Only its own store can know
// that it was withdrawn, by its name: it has the lease of the store's session and a nonce with the store's mark, and no
// ballot of the store has it. The store removes it when it meets it in a list.

// meetAll meets all ballots after a restore that the store has noticed: nothing else may lead it to elections in which
// it does not stand any more.
func (s *Store) meetAll() {
	s.mu.Lock()
	sess := s.current
	s.mu.Unlock()
	if sess == nil {
		return
	}
	prefix := s.config.Prefix + "/"
	resp, err := adapter.Repeat(s.life.Background, s.life, "list the ballots", "",
		func(ctx context.Context) (*clientv3.GetResponse, error) {
			return s.get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
		})
	if err != nil {
		return
	}
	for _, kv := range resp.Kvs {
		election, name, ok := strings.Cut(strings.TrimPrefix(string(kv.Key), prefix), "/_ballots/")
		if ok && strings.HasPrefix(name, ballotOf(sess.id, s.mark)) {
			s.meet(election, sess, place{string(kv.Key), kv.CreateRevision, sess.id})
		}
	}
}

// own says that the key belongs to a ballot of this store that is being cast or stands.
func (s *Store) own(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names[key] = struct{}{}
}

// disown says that the key belongs to no ballot any more.
func (s *Store) disown(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.names, key)
}

// queue returns the ballots among the keys, in the order of their creation, and has those removed that were revived.
func (b *ballot) queue(kvs []*mvccpb.KeyValue) []place {
	s := b.store
	q := queue(s.layout.dir(b.Election), kvs)
	for _, p := range q {
		if p.lease == b.session.id {
			s.meet(b.Election, b.session, p)
		}
	}
	return q
}

// meet removes a ballot of a session of the store's if it was revived.
func (s *Store) meet(election string, sess *session, p place) {
	name := strings.TrimPrefix(p.key, s.layout.dir(election))
	s.mu.Lock()
	_, owned := s.names[p.key]
	revived := !owned && strings.HasPrefix(name, ballotOf(sess.id, s.mark))
	if revived {
		s.names[p.key] = struct{}{} // once
	}
	s.mu.Unlock()
	if revived {
		s.orphans.Add(orphan{revived: true, ballot: &ballot{
			Ballot: adapter.NewBallot(s.life, election), store: s, session: sess, name: name, key: p.key,
			token: uint64(p.revision),
		}})
	}
}
