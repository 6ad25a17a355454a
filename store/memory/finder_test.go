package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// restore calls change, and then brings back the entries that were removed and whose sessions live.
func (s *Service) restore(change func()) {
	s.mu.Lock()
	entries, leaders := maps.Clone(s.entries), map[*entry]store.Leader{}
	for _, e := range s.elections {
		leaders[e.holder] = e.leader
	}
	s.mu.Unlock()
	change()
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, b := range entries {
		if s.entries[key] != nil || s.sessions[b.session.id] == nil {
			continue
		}
		s.index++
		b.election = s.election(b.election.name)
		s.entries[key] = b
		b.session.entries = append(b.session.entries, b)
		b.election.ballots = append(b.election.ballots, b)
		slices.SortFunc(b.election.ballots, func(p, q *entry) int { return cmp.Compare(p.token, q.token) })
		s.changed(key)
		if leader, ok := leaders[b]; ok {
			s.lead(b.election, b, leader)
		}
	}
}

// finder is a driver that finds the entries of its session at each confirmation.
type finder struct {
	*driver
	found func(session, election, nonce string)
}

// OnFound implements engine.Finder.
func (f *finder) OnFound(found func(session, election, nonce string)) { f.found = found }

func (f *finder) Confirm(ctx context.Context) error {
	id := f.last.Load()
	for _, b := range f.service.entriesOf(id) {
		f.found(sessionName(id), b.election.name, b.nonce)
	}
	return f.driver.Confirm(ctx)
}

func (s *Service) entriesOf(id uint64) []*entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sess := s.sessions[id]; sess != nil {
		return slices.Clone(sess.entries)
	}
	return nil
}

// TestFinder: the store itself is no engine.Finder, since its service is never restored.
func TestFinder(t *testing.T) {
	for _, watches := range []Watches{Ordered, OneShot, Unordered} {
		synctest.Test(t, func(t *testing.T) {
			caseOf(t, "restored-is-found").Check(t, harness(watches, false, func(d engine.Driver) engine.Driver {
				return &finder{driver: d.(*driver)}
			}))
		})
	}
}
