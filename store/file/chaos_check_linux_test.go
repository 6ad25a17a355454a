package file

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/store"
)

// margin is the longest time that a change of leaders may take. The TTL of the processes that are only killed is many
// times as long. The time for which the test stood still meanwhile is added.
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

func (r *chaosReport) note(member, what string) {
	r.schedule = append(r.schedule, chaosEvent{bootTime(), member, what, r.meter.Stalled()})
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
	margin := margin + r.stalled(before.end, now.began)
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

// stalled returns for how long the test stood still between two times, measured from the last event before to the first one
// after them.
func (r *chaosReport) stalled(from, to time.Duration) time.Duration {
	before, after := time.Duration(0), r.meter.Stalled()
	for _, e := range r.schedule {
		if e.at <= from {
			before = e.stalled
		}
		if e.at >= to {
			after = e.stalled
			break
		}
	}
	return after - before
}

// around returns the schedule from one TTL before a time to one TTL after it.
func (r *chaosReport) around(from, to time.Duration) string {
	var lines []chaosEvent
	for _, t := range r.tenures {
		lines = append(lines, chaosEvent{t.began, t.member, fmt.Sprintf("leads with token %d", t.token), 0},
			chaosEvent{t.end, t.member, fmt.Sprintf("has led with token %d", t.token), 0})
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

type chaosEvent struct {
	at      time.Duration
	member  string
	what    string
	stalled time.Duration // for how long the test had stood still
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

type violation struct {
	from, to time.Duration
	what     string
}

// journal is where a process of a test records what it does. It is memory shared with the test, so that nothing is lost
// when the process is killed, and writing needs no system call. All times are of CLOCK_BOOTTIME, which is the same in
// all processes.
type journal struct {
	memory  []byte
	records *[journalSize]record
	last    atomic.Pointer[record] // of the process: that of the latest ballot
	next    int
}

func (j *journal) close() error { return syscall.Munmap(j.memory) }

// lead records for how long the candidate leads, until the term has lasted for some time or is over. The candidate led
// at each recorded time, however long the process was stopped between two statements.
func (j *journal) lead(c *leadership.Candidate, term *leadership.Term, lasts time.Duration) {
	r := j.last.Load()
	for began := time.Duration(0); ; time.Sleep(100 * time.Microsecond) {
		now := bootTime()
		remaining := term.Remaining()
		if !c.IsLeader() {
			r.ended.Store(int64(bootTime()))
			return
		}
		if began == 0 {
			began = bootTime()
			r.began.Store(int64(began))
			continue
		}
		r.last.Store(int64(now))
		r.until.Store(int64(now + remaining))
		if now-began >= lasts {
			r.resigned.Store(int64(bootTime()))
			return
		}
	}
}

// tenures returns those of a process that was killed at that time; 0 if it was not killed.
func (j *journal) tenures(member string, killed time.Duration) (list []tenure) {
	for i := range j.records {
		r := &j.records[i]
		if r.token.Load() == 0 {
			break
		}
		t := tenure{uint64(r.token.Load()), time.Duration(r.began.Load()), time.Duration(r.until.Load()), member}
		if t.began == 0 {
			continue
		}
		if r.ended.Load() != 0 {
			t.end = time.Duration(r.last.Load())
		}
		if resigned := time.Duration(r.resigned.Load()); resigned != 0 {
			t.end = min(t.end, resigned)
		}
		if killed != 0 {
			t.end = min(t.end, killed)
		}
		t.end = max(t.end, t.began)
		list = append(list, t)
	}
	return list
}

// ballots returns the tokens of a process, with the time at which each was cast.
func (j *journal) ballots() (list []tenure) {
	for i := range j.records {
		r := &j.records[i]
		if r.token.Load() == 0 {
			break
		}
		list = append(list, tenure{token: uint64(r.token.Load()), began: time.Duration(r.cast.Load())})
	}
	return list
}

// nearlyFull reports whether there is room for few ballots.
func (j *journal) nearlyFull() bool { return j.records[journalSize*3/4].token.Load() != 0 }

// leads reports whether the process seems to lead, and of which term.
func (j *journal) leads() (token uint64, leads bool) {
	for i := range j.records {
		r := &j.records[i]
		if r.token.Load() == 0 {
			break
		}
		token, leads = uint64(r.token.Load()), r.began.Load() != 0 && r.resigned.Load() == 0 && r.ended.Load() == 0
	}
	return token, leads
}

const journalSize = 1024

// record is one ballot. The process writes it; zero means that the step has not happened.
type record struct {
	token    atomic.Int64 // the last that cast writes
	cast     atomic.Int64 // after Campaign returned it
	began    atomic.Int64 // after IsLeader was true
	last     atomic.Int64 // before IsLeader was true the last time
	until    atomic.Int64 // IsLeader is true until then without any further renewal
	resigned atomic.Int64 // before Resign was called
	ended    atomic.Int64 // after IsLeader was false
	_        int64
}

// openJournal opens the journal of a process, which the test has made.
func openJournal(path string) (*journal, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := int(unsafe.Sizeof(record{})) * journalSize
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	j := &journal{}
	if j.memory, err = syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED); err != nil {
		return nil, err
	}
	j.records = (*[journalSize]record)(unsafe.Pointer(&j.memory[0]))
	return j, nil
}

// journaled is a store that notes each ballot.
type journaled struct {
	store.Store
	journal *journal
}

// Cast implements store.Store.
func (s journaled) Cast(ctx context.Context, election, value string) (store.Ballot, error) {
	ballot, err := s.Store.Cast(ctx, election, value)
	if err != nil {
		return nil, err
	}
	j := s.journal
	if j.next == journalSize {
		return nil, fmt.Errorf("%w: the journal is full", store.ErrInvalid)
	}
	r := &j.records[j.next]
	j.next++
	r.cast.Store(int64(bootTime()))
	r.token.Store(int64(ballot.Token()))
	j.last.Store(r)
	return ballot, nil
}

// tenure is a time for which a candidate certainly led.
type tenure struct {
	token      uint64
	began, end time.Duration
	member     string
}
