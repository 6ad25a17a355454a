// Package channels drives candidates and followers by channels, in the style of docker/leadership. It stands on the public
// API of package leadership.
//
//	c, err := channels.NewCandidate(st, "database/primary", "dbhost2:4567", nil)
//	elected, errs := c.RunForElection()
//	f, err := channels.NewFollower(st, "database/primary", nil)
//	leaders, errs := f.FollowElection()
//
// No reader holds anything up: what it has not read is replaced by what is newer.
package channels

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
)

// Candidate is a candidate for RunForElection. NewCandidate makes one.
type Candidate struct {
	*leadership.Candidate
	errs   *latest[error]
	called atomic.Bool
}

// NewCandidate is leadership.NewCandidate.
func NewCandidate(st store.Store, election, value string, opts *leadership.CandidateOptions) (*Candidate, error) {
	var o leadership.CandidateOptions
	if opts != nil {
		o = *opts
	}
	errs := newLatest[error](1)
	o.Events = withErrors(o.Events, errs)
	c, err := leadership.NewCandidate(st, election, value, &o)
	if err != nil {
		return nil, err
	}
	return &Candidate{Candidate: c, errs: errs}, nil
}

// RunForElection runs the candidate in the background, until Stop. The first channel carries false at once, then true each
// time a term of the candidate's begins and false each time one ends; the candidate then stands again. The second carries
// errors. The candidate acknowledges at once.
//
// A true that was not read before its term ended is taken back; a false is never left out. A value was right when it was
// sent: IsLeader tells what is right now.
//
// After Stop, or a permanent error, which is the last on the second channel, both channels are closed, and nothing of the
// candidate is left. Call RunForElection once: if it was called before, or the candidate is running or has been stopped,
// both channels are closed at once, the second with that error.
func (c *Candidate) RunForElection() (elected <-chan bool, errs <-chan error) {
	if c.called.Swap(true) {
		return refused[bool](leadership.ErrRunning)
	}
	terms := newLatest[bool](2)
	terms.add(false)
	go func() { // its owner reads the channels until they are closed
		err := c.Run(context.Background(), func(ctx context.Context, term *leadership.Term) error {
			terms.add(true) // there is room: at most one false is waiting
			defer terms.replace(false)
			return leadership.Lead(ctx, term)
		})
		terms.close()
		if err == nil { // after Stop
			c.errs.close()
			return
		}
		c.errs.close(err)
	}()
	return terms.values, c.errs.values
}

// Follower is a follower for FollowElection. NewFollower makes one.
type Follower struct {
	*leadership.Follower
	errs   *latest[error]
	called atomic.Bool
}

// NewFollower is leadership.NewFollower.
func NewFollower(st store.Store, election string, opts *leadership.FollowerOptions) (*Follower, error) {
	var o leadership.FollowerOptions
	if opts != nil {
		o = *opts
	}
	errs := newLatest[error](1)
	o.Events = withErrors(o.Events, errs)
	f, err := leadership.NewFollower(st, election, &o)
	if err != nil {
		return nil, err
	}
	return &Follower{Follower: f, errs: errs}, nil
}

// FollowElection follows in the background, until Stop. The first channel carries the leader, the zero Leader if there is
// none: the present state as soon as it is known, then each that differs from the one read last. The second carries errors.
//
// After Stop, or a permanent error, which is the last on the second channel, both channels are closed. Call FollowElection
// once: if it was called before, both channels are closed at once, the second with an error.
func (f *Follower) FollowElection() (leaders <-chan leadership.Leader, errs <-chan error) {
	if f.called.Swap(true) {
		return refused[leadership.Leader](errors.New("FollowElection was called before"))
	}
	states := newLatest[leadership.Leader](1)
	go func() { // its owner reads the channels until they are closed
		var read, sent *leadership.Leader // what the reader has read last, and what it may read
		for leader := range f.Changes(context.Background()) {
			if !states.takeBack() {
				read = sent
			}
			if sent = read; read == nil || *read != leader {
				sent = &leader
				states.add(leader)
			}
		}
		states.close()
		if err := f.Err(); errors.Is(err, leadership.ErrStopped) {
			f.errs.close()
		} else {
			f.errs.close(err)
		}
	}()
	return states.values, f.errs.values
}

// withErrors adds the errors of events to a function of the program's.
func withErrors(events func(leadership.Event), errs *latest[error]) func(leadership.Event) {
	return func(e leadership.Event) {
		if e.Kind == leadership.AttemptFailed {
			errs.replace(e.Err)
		}
		if events != nil {
			events(e)
		}
	}
}
