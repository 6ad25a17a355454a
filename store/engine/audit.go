package engine

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
)

// What can't be explained ends the session; the candidate stands again. An entry of a session that no claim accounts for
// is not explained: the service was restored from a snapshot, or an operator has put the entry back. No ballot owns the
// entry, so all behind it would wait for good, and followers would see its leader. The end of the session removes it.
//
// The audit looks at the head of the queue of each election in which its session has ever cast a ballot:
//   - after each reconnection, at all of them, since a service is restored while it is down. They are read as [places]
//     allow, 16 at once. So N elections take N/16 round trips;
//   - otherwise at one for each pace, in turn (rota.go). So an entry that has got to the head is found within N paces, and
//     two more round trips. Of those without a claim it remembers the last [mostElections].
//
// Each look costs one request. A service that lags, a late answer, or a denial that passes can show an entry that is
// explained a moment later. So an entry costs the session only if two reads show it, both sent after its claim was settled.

// mostElections is how many elections a session remembers in which it has no claim any more. So a program that casts in a
// new election for each of its jobs needs no more and more memory.
const mostElections = 1000

// record returns what is known of an election, which is audited from now on. The caller holds the engine's mu.
func (s *session) record(election string) *record {
	r := s.records[election]
	if r == nil {
		r = &record{election: election}
		r.inRota = s.rota.join(func() { s.checkHead(election) })
		r.unclaimed = s.unclaimed.PushBack(r)
		s.records[election] = r
	}
	return r
}

// claimed counts a claim. The caller holds the engine's mu.
func (s *session) claimed(r *record) {
	if r.claims++; r.claims == 1 {
		s.unclaimed.Remove(r.unclaimed)
	}
}

// settled counts a claim that is settled. If too many elections are without a claim, the audit of the one that has been
// without for the longest ends. The caller holds the engine's mu.
func (s *session) settled(r *record) {
	if r.claims--; r.claims == 0 {
		r.unclaimed = s.unclaimed.PushBack(r)
	}
	if s.unclaimed.Len() > mostElections {
		oldest := s.unclaimed.Remove(s.unclaimed.Front()).(*record)
		s.rota.leave(oldest.inRota)
		delete(s.records, oldest.election)
	}
}

// connected notes on which connection a proof came.
func (s *session) connected(connection uint64) {
	if s.connection.Swap(connection) != connection {
		ring(s.reconnected)
	}
}

// audit runs as long as the session.
func (s *session) audit() {
	ticker := time.NewTicker(s.engine.settings.Pace)
	defer ticker.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.reconnected:
			s.checkHeads()
		case <-ticker.C:
			s.rota.advance()
		}
	}
}

// elections are those that are audited, in the order of their names, so that a simulation can be repeated.
func (s *session) elections() []string {
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	return slices.Sorted(maps.Keys(s.records))
}

// checkHeads looks at the heads of all elections, as many at once as there are places.
func (s *session) checkHeads() {
	var looks sync.WaitGroup
	defer looks.Wait()
	free := make(chan struct{}, places)
	for _, election := range s.elections() {
		free <- struct{}{}
		looks.Go(func() { s.checkHead(election); <-free })
	}
}

// checkHead gives the session up if the head of an election's queue is not explained. A read without an answer is sent
// again for a TTL: then the turn of the election has to come again, so that it holds up no other.
func (s *session) checkHead(election string) {
	ctx, cancel := context.WithTimeout(s.ctx, s.engine.settings.TTL)
	defer cancel()
	seen, nonce := 0, ""
	for wait := (adapter.Retries{}); ctx.Err() == nil; wait.Pause(ctx) {
		var head State
		err := s.engine.gate.send(ctx, reads, func() (err error) {
			head, err = s.engine.driver.First(ctx, election)
			return err
		})
		switch {
		case adapter.Uncertain(err):
			continue
		case err != nil, s.explains(head): // an error that is final says nothing of the entry
			return
		case head.Nonce != nonce: // this read might have been sent before the claim was settled
			seen, nonce = 0, head.Nonce
			continue
		}
		if seen++; seen == 2 {
			why := fmt.Errorf("a ballot of this session stands in election %q that was withdrawn: the service was set back", election)
			if s.giveUp(why) {
				s.engine.program.log(slog.LevelWarn, "a ballot of this session stands that was withdrawn, so the session ends",
					"store", s.engine.settings.Name, "election", election, "token", head.Token)
			}
			return
		}
	}
}

// explains reports whether an entry is of another session, or a claim accounts for it.
func (s *session) explains(head State) bool {
	if head.Token == 0 || head.Session != s.id || head.Nonce == "" {
		return true
	}
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	return s.claims[head.Nonce] != nil
}

// ring rings a bell, which is a channel with room for one.
func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}
