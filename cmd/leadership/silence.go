package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/go-leadership/leadership/store"
)

// silenceJSON returns a [store.Standing]'s Silence in seconds: null if the service can't tell, and nil, which is left out, if
// the service ends sessions by itself.
func silenceJSON(silence time.Duration) any {
	switch {
	case silence == 0:
		return nil
	case silence < 0:
		return json.RawMessage("null")
	}
	return silence.Seconds()
}

// silenceText is the same for people.
func silenceText(silence time.Duration) string {
	switch {
	case silence == 0:
		return ""
	case silence < 0:
		return "not known"
	}
	return silence.Round(100*time.Millisecond).String() + " ago"
}

// silence returns the Silence of the first in line.
func (s *session) silence(ctx context.Context, election string) (silence time.Duration, err error) {
	err = s.ask(ctx, func(ctx context.Context) error {
		ballots, err := s.Ballots(ctx, election)
		if len(ballots) > 0 {
			silence = ballots[0].Silence
		}
		return err
	})
	return silence, err
}

// overdue reports whether a session has been silent for its TTL, by the TTL that the store's URL has.
func (f storeFlag) overdue(silence time.Duration) bool {
	u, err := store.ParseURL(f.Store)
	if err != nil {
		return false
	}
	ttl, _ := u.Session()
	return silence >= ttl
}

// warnOfSilence warns of a leader that might be dead, and if that is not known.
func (a *app) warnOfSilence(f storeFlag, silence time.Duration, err error) {
	switch {
	case err != nil:
		a.warnf("when the leader's session was renewed is not known: %v", err)
	case silence < 0:
		a.warnf("when the leader's session was renewed is not known: the leader might be dead")
	case silence > 0 && f.overdue(silence):
		a.warnf("the leader's session has not been renewed for %v, by the store's clock: the leader might be dead", silence.Round(100*time.Millisecond))
	}
}
