package engine

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/go-leadership/leadership/internal/teller"
)

// A service might refuse to remove an entry, as with a permission to create ballots but not to delete them. The entry then
// stands as long as its session, and no candidate behind it leads. The end of the session frees the queue, but costs the
// other ballots of the session. So the session ends as soon as none of them leads. Until then the engine sends the removal
// again, and casts nothing more in that election: each ballot would leave one more entry.

// refusedPause is the longest time from one removal that is refused to the next. It begins with 100 ms, since a denial
// might pass.
const refusedPause = 5 * time.Second

// mostRefused is how many orphans of a session can't be removed and keep their slots. One more ends the session.
const mostRefused = Slots / 2

// refuse records that the service refuses to remove the entry, and gives the session up if that ends no term.
func (c *claim) refuse(what string, err error, again *teller.Reminder) {
	s, e := c.session, c.session.engine
	e.mu.Lock()
	r := s.records[c.election]
	if !c.refused {
		c.refused = true
		r.refusals++
		s.stuck += c.slots()
	}
	r.refusal = fmt.Errorf("ballot %s of this process can't be removed: %w", what, err)
	tooMany := s.stuck > mostRefused
	e.mu.Unlock()
	if tooMany || !s.leads() {
		if s.giveUp(fmt.Errorf("a ballot could not be removed: %v", err)) { // in words: the other ballots were not refused
			e.program.log(slog.LevelWarn, "a ballot can't be removed, so the session ends",
				"store", e.settings.Name, "election", c.election, "entry", what, "error", err)
		}
		return
	}
	if again.Due() {
		e.program.log(slog.LevelWarn, "a ballot can't be removed, so no candidate behind it leads: permit its removal, or end this process",
			"store", e.settings.Name, "election", c.election, "entry", what, "error", err)
	}
}

// passed ends a refusal: the claim is settled. The caller holds the engine's mu.
func (c *claim) passed() {
	if !c.refused {
		return
	}
	c.refused = false
	s := c.session
	r := s.records[c.election]
	s.stuck -= c.slots()
	if r.refusals--; r.refusals == 0 {
		r.refusal = nil
	}
	s.engine.program.log(slog.LevelInfo, "the ballot that could not be removed is gone",
		"store", s.engine.settings.Name, "election", c.election)
}

// slots returns how many slots the claim holds while its entry is removed. The caller holds the engine's mu.
func (c *claim) slots() int {
	if c.ballot == nil {
		return 1
	}
	return 0
}

// leads reports whether a ballot of the session leads, is about to, or has led and is being removed.
func (s *session) leads() bool {
	for _, b := range s.ballots() {
		b.mu.Lock()
		needed := closed(b.first) && (b.waited || b.Err() == nil) && !closed(b.gone) && !closed(b.stuck)
		b.mu.Unlock()
		if needed {
			return true
		}
	}
	return false
}
