package engine

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/go-leadership/leadership/internal/teller"
)

// A service might refuse to remove an entry, as with a permission to create ballots but not to delete them. The entry then
// stands as long as its session, and no candidate behind it leads. The end of the session frees the queue, but costs the
// other ballots of the session. So the session ends as soon as no leader's work depends on it. Until then the engine sends
// the removal again, and casts nothing more in that election: each ballot would leave one more entry.
//
// An orphan that can't be removed keeps its slot. If there are [Slots] of them, in as many elections, the store casts no
// ballot until its session ends. The service's permissions are wrong for all these elections then, and the log says so.

// refusedPause is the longest time from one removal that is refused to the next. It begins with 100 ms, since a denial
// might pass.
const refusedPause = 5 * time.Second

// refuse records that the service refuses to remove the entry, and gives the session up if that ends no term.
func (c *claim) refuse(what string, err error, again *teller.Reminder) {
	s, e := c.session, c.session.engine
	e.mu.Lock()
	r := s.records[c.election]
	if !c.refused {
		c.refused = true
		r.refusals++
	}
	r.refusal = fmt.Errorf("ballot %s of this process can't be removed: %w", what, err)
	e.mu.Unlock()
	says := "a ballot can't be removed, so no candidate behind it leads: permit its removal, or end this process"
	switch {
	case len(s.work()) == 0:
		if !s.giveUp(fmt.Errorf("a ballot could not be removed: %v", err)) { // in words: the other ballots were not refused
			return
		}
		says = "a ballot can't be removed, so the session ends"
	case !again.Due():
		return
	}
	e.program.log(slog.LevelWarn, says, "store", e.settings.Name, "election", c.election, "entry", what, "error", err)
}

// passed ends a refusal: the claim is settled. The caller holds the engine's mu.
func (c *claim) passed() {
	if !c.refused {
		return
	}
	s := c.session
	r := s.records[c.election]
	if r.refusals--; r.refusals == 0 {
		r.refusal = nil
	}
	s.engine.program.log(slog.LevelInfo, "the ballot that could not be removed is gone",
		"store", s.engine.settings.Name, "election", c.election)
}
