package engine

import (
	"math"
	"time"
)

// Silence is what this process knows of the silence of one session: how long its mark has to stand until a peer may
// end the session. It is the rule by which peers end sessions, for the engine's detectors and for a driver that looks
// after sessions itself. The zero Silence knows nothing.
//
// The holder of a session sent the renewal that made a mark before any answer came that shows the mark. So once the
// mark has stood for the session's TTL since such an answer, by the monotonic clock, the holder's lease has ended. The
// request that ends the session is carried out only if the session still has the mark.
//
// Proven silence adds up. A process that has seen the mark stand for a while writes beside the mark how long the mark
// still has to stand, in a request that is carried out only if the session still has the mark: so the mark has stood
// until then. A process that reads this counts from its answer on. So the times that count follow each other, and
// processes that come and go end a session together after one TTL. What makes it safe:
//
//   - No mark comes again. If the service might lose changes, as a database that fails over, an earlier mark might come
//     back with what was proved of it. Such a service keeps what was proved only for as long as it can't have lost a
//     renewal, and shows marks from before as others.
//   - What is left is reckoned before the request is sent. A process or machine that stands still before, or a request
//     that comes late, counts too little.
//   - Clocks at other rates add up to no larger part of the TTL than one such clock would: the grace covers that part.
//   - Several processes that watch at once prove the same time. So what is left becomes the least of what they write,
//     and not less.
type Silence struct {
	mark string
	due  time.Time     // when the mark will have stood for the TTL, at the latest
	left time.Duration // the least that the service is known to keep of it
	told bool          // an answer has shown the mark
}

// Note notes what an answer has shown: the mark, and how long it still has to stand: the session's TTL, less what peers
// have proved. now is a time after the answer came.
func (s *Silence) Note(mark string, left time.Duration, now time.Time) {
	if due := now.Add(left); !s.told || mark != s.mark {
		*s = Silence{mark: mark, due: due, left: left, told: true}
	} else {
		if due.Before(s.due) {
			s.due = due
		}
		s.left = min(s.left, left)
	}
}

// Mark returns the mark that was seen last.
func (s *Silence) Mark() string { return s.mark }

// Due returns when the session may be ended if the mark still stands then. It is zero before an answer has shown a mark.
func (s *Silence) Due() time.Time { return s.due }

// Left returns how long the mark still has to stand, at a time that is before the next request is sent. 0: the session
// may be ended. Before an answer has shown a mark, it is the longest time.
func (s *Silence) Left(now time.Time) time.Duration {
	if !s.told {
		return math.MaxInt64
	}
	return max(0, s.due.Sub(now))
}

// Unproved reports whether this process has seen the mark stand for longer than the service keeps, by step at least. left
// is what to write then: the time that the mark still has to stand when the request arrives.
func (s *Silence) Unproved(now time.Time, step time.Duration) (left time.Duration, ok bool) {
	left = s.Left(now)
	return left, s.told && s.left-left >= step
}

// Proved notes that the service keeps what Unproved has returned.
func (s *Silence) Proved(mark string, left time.Duration) {
	if mark == s.mark {
		s.left = min(s.left, left)
	}
}
