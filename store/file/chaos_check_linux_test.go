package file

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/stall"
)

// margin is the longest time that a change of leaders may take. The TTL of the processes that are only killed is many
// times as long. The time for which this process stood still is added.
const margin = 2 * time.Second

// chaosReport is what happened in one run.
type chaosReport struct {
	ttl      time.Duration
	meter    *stall.Meter
	schedule []chaosEvent
	tenures  []tenure
	lives    []chaosLife
	kills    int
}

type chaosEvent struct {
	at     time.Duration
	member string
	what   string
}

// chaosLife is what one process did.
type chaosLife struct {
	ballots []tenure
	freezes []freeze
	killed  time.Duration
}

// freeze is a time for which a process was stopped. At the latest from the time stood on it ran no more.
type freeze struct{ began, stood, ended time.Duration }

// excuse is a time in which the absence of a leader is no fault.
type excuse struct{ began, ended time.Duration }

func (r *chaosReport) note(member, what string) {
	r.schedule = append(r.schedule, chaosEvent{bootTime(), member, what})
}

// add adds what a process did that was killed at that time.
func (r *chaosReport) add(p *chaosProcess, killed time.Duration) {
	r.kills++
	r.tenures = append(r.tenures, p.journal.tenures(p.name, killed)...)
	r.lives = append(r.lives, chaosLife{p.journal.ballots(), p.freezes, killed})
}

// check fails the test if there are two leaders at any moment, if there is none without an excuse, or if tokens don't
// grow.
func (r *chaosReport) check(t *testing.T) {
	t.Helper()
	violations, longest := r.violations()
	freezes := 0
	for _, l := range r.lives {
		freezes += len(l.freezes)
	}
	t.Logf("TTL %v: %d terms, %d kills, %d stops, longest gap %v; %v", r.ttl, len(r.tenures), r.kills, freezes, longest, r.meter)
	for _, v := range violations[:min(3, len(violations))] {
		t.Errorf("%s\n%s", v.what, r.around(v.from, v.to))
	}
	if more := len(violations) - 3; more > 0 {
		t.Errorf("and %d more", more)
	}
}

type violation struct {
	from, to time.Duration
	what     string
}

func (r *chaosReport) violations() (list []violation, longest time.Duration) {
	slices.SortFunc(r.tenures, func(a, b tenure) int { return cmp.Compare(a.began, b.began) })
	for i := 1; i < len(r.tenures); i++ {
		before, now := r.tenures[i-1], r.tenures[i]
		for _, earlier := range r.tenures[max(0, i-50):i] {
			if earlier.end > now.began {
				list = append(list, violation{now.began, earlier.end,
					fmt.Sprintf("two leaders for %v: %v, %v", min(earlier.end, now.end)-now.began, earlier, now)})
			}
		}
		if now.token <= before.token {
			list = append(list, violation{before.began, now.end, fmt.Sprintf("token %d of %v after token %d of %v", now.token, now, before.token, before)})
		}
		longest = max(longest, now.began-before.end)
		if bare := r.unexcused(before, now); bare > 0 {
			list = append(list, violation{before.end, now.began,
				fmt.Sprintf("no leader for %v, %v of that without an excuse: %v, %v", now.began-before.end, bare, before, now)})
		}
	}
	return list, longest
}

// unexcused returns for how long there was no leader between two terms without an excuse. Changing leaders, and
// reporting that a process was killed which might have led meanwhile, may take the margin; after a stop, the TTL more.
// A process can't have led if its ballot was behind that of the next leader.
func (r *chaosReport) unexcused(before, now tenure) time.Duration {
	margin := margin + r.meter.Stalled()
	if now.began <= before.end+margin {
		return 0
	}
	excuses := []excuse{{before.end, before.end + margin}}
	for _, l := range r.lives {
		might := func(at time.Duration) bool {
			var last uint64
			for _, b := range l.ballots {
				if b.began <= at {
					last = b.token
				}
			}
			return before.token <= last && last <= now.token
		}
		for _, f := range l.freezes {
			if might(f.stood) {
				excuses = append(excuses, excuse{f.began, min(f.ended, f.began+r.ttl) + margin})
			}
		}
		if might(math.MaxInt64) { // with its last ballot
			excuses = append(excuses, excuse{l.killed, l.killed + margin})
		}
	}
	slices.SortFunc(excuses, func(a, b excuse) int { return cmp.Compare(a.began, b.began) })
	bare, at := time.Duration(0), before.end
	for _, e := range excuses {
		if e.began > at {
			bare += max(0, min(e.began, now.began)-at)
		}
		at = max(at, e.ended)
	}
	return bare + max(0, now.began-at)
}

// around returns the schedule from one TTL before a time to one TTL after it.
func (r *chaosReport) around(from, to time.Duration) string {
	var lines []chaosEvent
	for _, t := range r.tenures {
		lines = append(lines, chaosEvent{t.began, t.member, fmt.Sprintf("leads with token %d", t.token)},
			chaosEvent{t.end, t.member, fmt.Sprintf("has led with token %d", t.token)})
	}
	lines = append(lines, r.schedule...)
	slices.SortFunc(lines, func(a, b chaosEvent) int { return cmp.Compare(a.at, b.at) })
	var text strings.Builder
	for _, l := range lines {
		if l.at > from-min(r.ttl, 2*time.Second) && l.at < to+min(r.ttl, 2*time.Second) {
			fmt.Fprintf(&text, "%12v %s %s\n", l.at-from, l.member, l.what)
		}
	}
	return text.String()
}
