package engine

import (
	"errors"
	"fmt"
	"os"

	"github.com/go-leadership/leadership/store"
)

// Lifeline is a process beside this one that ends the sessions of this one when this one has died: docs/lifeline.md.
type Lifeline interface {
	Add(id string, handover []byte) // a session that has been opened
	Drop(id string)                 // a session that has ended, or of which nothing is known
	File() (*os.File, error)        // the lifeline ends no session while a process has the file open
	Close()
}

// Handover is a Session that a [Lifeline] can end. Handover returns what that takes besides the ID.
type Handover interface {
	Handover() []byte
}

// handOver tells the lifeline of a session, before anything is cast in it.
func (s *session) handOver() {
	if d, ok := s.driver.(Handover); ok && s.engine.settings.Lifeline != nil {
		s.engine.settings.Lifeline.Add(s.id, d.Handover())
	}
}

// handBack tells the lifeline that the session is over, even if its end is not confirmed: the service ends it by itself.
func (s *session) handBack() {
	if s.engine.settings.Lifeline != nil {
		s.engine.settings.Lifeline.Drop(s.id)
	}
}

// ProcessBound is a Session that ends as soon as its process is gone: see Ballot.SessionFile in package store.
type ProcessBound interface {
	SessionFile() (*os.File, error)
}

// SessionFile implements store.Ballot.
func (b *ballot) SessionFile() (*os.File, error) {
	s, ok := b.session.driver.(ProcessBound)
	line := b.engine.settings.Lifeline
	switch {
	case ok:
	case line == nil:
		return nil, nil
	case b.Err() != nil:
		return nil, b.Err()
	default:
		return line.File()
	}
	file, err := s.SessionFile()
	if errors.Is(err, ErrOver) {
		err = fmt.Errorf("%w: %w", store.ErrLost, err)
	}
	return file, err
}
