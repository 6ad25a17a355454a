package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// An epoch counts the failovers of the server: each might have lost the last transactions. hello tells the epoch on
// each new connection. When it is a later one, the driver
//
//   - takes no answer to a request on a connection of an earlier epoch any more, and leaves such a connection that
//     listens after the read that is under way,
//   - ends the watches of leaders, since the leader that is read next might be an earlier one,
//   - reads all entries that are watched again, and until then counts no renewal,
//   - gives a session up that might have been ended in the lost transactions, or that has lost an entry before its
//     watch was set (session.survives),
//   - sends the acknowledgements of the session again.

// errOldPrimary says that a server knows of fewer failovers than another one has told.
var errOldPrimary = fmt.Errorf("%w: the server knows of fewer failovers than another one has told: it is an old primary, "+
	"or a copy of old data", store.ErrUnavailable)

// inEpoch reports whether an epoch is the latest that a connection has told. If it is a later one, what was told before
// might be wrong: the watches of leaders end, entries are read again, and until then no renewal counts.
func (d *driver) inEpoch(epoch int64) bool {
	d.mu.Lock()
	later := epoch > d.epoch && d.known
	if !d.known { // nothing has been told
		d.readEpoch = epoch
	}
	d.over = d.over || later
	d.epoch, d.known = max(d.epoch, epoch), true
	latest := epoch == d.epoch
	if later {
		d.link.wake()
	}
	d.mu.Unlock()
	if later {
		d.life.Warn(d.config.Logger, "the server has failed over: transactions might be lost, and no ballot is cast for the longest TTL")
	}
	return latest
}

// failedOver reports whether the server has failed over since the last renewal that was confirmed was sent.
func (s *session) failedOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epoch != s.driver.latest()
}

// survives finds out whether the session goes on after a failover. It returns engine.ErrOver if the TTL has passed
// since the last renewal that was confirmed was sent: peers might have ended the session, and the failover have lost
// that. Then the session's ballots might be ahead of one that leads. It also does so if an entry has gone whose watch
// was not set: no watch would tell the end of that ballot.
func (s *session) survives(ctx context.Context) error {
	d := s.driver
	s.mu.Lock()
	idle := s.sent.Since(time.Now())
	s.mu.Unlock()
	if idle >= d.config.TTL {
		return s.overWith(ctx, "peers might have ended it before the server failed over")
	}
	tokens := s.unwatched()
	if len(tokens) == 0 {
		return nil
	}
	rows, _, err := query[lookRow](ctx, d, d.renewals, d.call("look($1, '{}', '{}')"), tokens)
	if err != nil {
		return err
	}
	stands := map[int64]bool{}
	for _, r := range rows {
		stands[r.Token] = true
	}
	for _, token := range s.unwatched() { // the others have been given back meanwhile, or are watched
		if !stands[token] && slices.Contains(tokens, token) {
			return s.overWith(ctx, "the failover of the server has lost a ballot")
		}
	}
	return nil
}

// unwatched returns the tokens of the session's entries whose watch is not set yet.
func (s *session) unwatched() (tokens []int64) {
	d := s.driver
	d.mu.Lock()
	defer d.mu.Unlock()
	for token, e := range d.unwatched {
		if e.session == s {
			tokens = append(tokens, token)
		}
	}
	return tokens
}

// overWith ends the session, and returns engine.ErrOver with the reason.
func (s *session) overWith(ctx context.Context, why string) error {
	if err := s.End(ctx, nil); err != nil {
		return err
	}
	return fmt.Errorf("%w: %s", engine.ErrOver, why)
}

// confirmed notes that a renewal was confirmed. epoch is that before it was sent.
func (s *session) confirmed(epoch int64, sent store.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sent.Time().After(s.sent.Time()) {
		s.sent, s.epoch = sent, epoch
	}
}

// entered is an entry whose watch is not set yet.
type entered struct {
	session *session
	nonce   string
}

// enter notes an entry that was made, unless the server has failed over since the epoch before the request was sent.
func (d *driver) enter(token int64, e entered, epoch int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if epoch != d.epoch {
		return fmt.Errorf("%w: the server has failed over meanwhile", store.ErrUnknownOutcome)
	}
	if !e.session.ended {
		d.unwatched[token] = e
	}
	return nil
}

// forgetEntries forgets entries that are watched, have been removed, or are of a session that has ended.
func (d *driver) forgetEntries(gone func(token int64, e entered) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.unwatched, gone)
}

// latest returns the latest epoch that a connection has told.
func (d *driver) latest() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.epoch
}

// allRead reports whether everything that is watched has been read since the last failover of the server. Until then a
// ballot that was lost in the failover might not be known to be lost, and a renewal must not prolong its lease.
func (d *driver) allRead() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.readEpoch == d.epoch
}

// acknowledgeAgain sends the acknowledgements again, since a failover might have lost them. The server carries out none
// that it has: its turn is not a later one.
func (s *session) acknowledgeAgain(ctx context.Context) {
	s.mu.Lock()
	acks := maps.Clone(s.acks)
	s.mu.Unlock()
	for token, a := range acks {
		for retries := (adapter.Retries{}); ctx.Err() == nil; retries.Pause(ctx) {
			_, err := of[acknowledgeRow](ctx, s, "acknowledge($1, $2, $3, $4)", token, a.turn, []byte(a.value))
			if !adapter.Uncertain(err) {
				break
			}
		}
	}
}
