package memory

import (
	"slices"

	"github.com/go-leadership/leadership/store"
)

// Event is something that happened, for tests that check that it happens at all.
type Event struct {
	Kind     Kind
	Election string       // empty if that is not known
	Nonce    string       // of the cast, if Kind is EnterVoid or VoidFound
	Leader   store.Leader // if Kind is Led
}

// Kind is the kind of an [Event].
type Kind int

// The events that a trace is told of.
const (
	Led                    Kind = iota // the acknowledgement of an election has changed: Leader
	LeaderExpired                      // the session of the first in line has expired, and others wait
	AcknowledgementRefused             // of a ballot that does not stand any more
	EnterVoid                          // a ballot was refused, as its nonce is void
	VoidFound                          // a ballot was removed because its nonce is void
	WentTogether                       // a ballot and the one before it went in one step
	ConfirmedLate                      // a renewal was answered after the deadline of the lease
	EndedMeanwhile                     // a session ended before the answer to one of its requests arrived
)

// Trace makes the service call f for each [Event]. f must not block or call the service.
func (s *Service) Trace(f func(Event)) {
	s.locked(func() { s.trace = f })
}

// tell calls the trace.
func (s *Service) tell(e Event) {
	if s.trace != nil {
		s.trace(e)
	}
}

// expired reports that a session is about to be ended because it was not renewed.
func (s *Service) expired(sess *session) {
	for _, b := range sess.entries {
		if list := b.election.ballots; list[0] == b && len(list) > 1 {
			s.tell(Event{Kind: LeaderExpired, Election: b.election.name})
		}
	}
}

// together reports if one of the ballots that are removed in one step is next to another.
func (s *Service) together(ballots []*entry) {
	for _, b := range ballots {
		list := b.election.ballots
		if i := slices.Index(list, b); s.trace != nil && i > 0 && slices.Contains(ballots, list[i-1]) {
			s.tell(Event{Kind: WentTogether, Election: b.election.name})
			return
		}
	}
}
