package serve

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

func ago(seconds int) time.Time { return noon.Add(-time.Duration(seconds) * time.Second) }

// holds is the value of a hold's ballot.
const holds = "\x00leadership hold\x00new disks (alice@db1)"

// led is an election in which all is well.
func led() Election {
	return Election{
		Name: "e", Leader: store.Leader{Value: "db1", Revision: 8}, Led: true, Since: ago(90), AsOf: ago(1), Fresh: true,
		Queue: Queue{Ballots: []store.Standing{{Value: "db1", Token: 7}, {Value: "db2", Token: 9}}, Read: ago(2), First: ago(95)},
	}
}

// without is an election that has had no leader for a time.
func without(seconds int, ballots ...store.Standing) Election {
	e := led()
	e.Leader, e.Since = store.Leader{}, ago(seconds)
	e.Queue.Ballots, e.Queue.First = ballots, ago(seconds-1)
	return e
}

// What is wrong with an election, in the order of urgency: what it is, how urgent, and since when.
func TestProblems(t *testing.T) {
	change := func(e Election, f func(e *Election)) Election { f(&e); return e }
	db2 := store.Standing{Value: "db2", Token: 9}
	for name, c := range map[string]struct {
		e     Election
		want  []string
		state string
		level Level
	}{
		"well": {led(), nil, "led", Fine},
		"no leader, within the bound": {
			without(5), []string{"warning no leader 5 s: no candidate stands; within the bound of 11 s"}, "no leader", Warning,
		},
		"no leader, at the bound": {without(11), []string{"warning no leader 11 s: no candidate stands; within the bound of 11 s"}, "no leader", Warning},
		"no leader for long": {
			without(12), []string{"critical no leader 12 s: no candidate stands; longer than the bound of 11 s"}, "no leader", Critical,
		},
		"first in line": {
			without(5, db2), []string{"warning taking over 4 s: db2 is first in line, and has not acknowledged"}, "taking over", Warning,
		},
		"first in line for long": {
			without(70, db2), []string{
				"critical no leader 1 min 10 s: longer than the bound of 11 s",
				"warning taking over 1 min 9 s: db2 is first in line, and has not acknowledged",
			}, "no leader", Critical,
		},
		"queue not read since": {
			change(without(5, db2), func(e *Election) { e.Queue.Behind = true }),
			[]string{"warning no leader 5 s: within the bound of 11 s"}, "no leader", Warning,
		},
		"queue never read": {
			change(without(5), func(e *Election) { e.Queue = Queue{} }),
			[]string{"warning no leader 5 s: within the bound of 11 s"}, "no leader", Warning,
		},
		"never led and empty":    {change(without(500), func(e *Election) { e.Led = false }), nil, "empty", Idle},
		"never led and expected": {change(without(5), func(e *Election) { e.Led, e.Expected = false, true }), []string{"warning no leader 5 s: no candidate stands; within the bound of 11 s"}, "no leader", Warning},
		"at least": {
			change(without(12), func(e *Election) { e.AtLeast = true }),
			[]string{"critical no leader ≥ 12 s: no candidate stands; longer than the bound of 11 s"}, "no leader", Critical,
		},
		"asked": {
			change(led(), func(e *Election) { e.Queue.Ballots[0].Asked, e.Queue.Asked = true, ago(3) }),
			[]string{"warning asked to resign 3 s: db1 was asked to resign, and its work has not stopped"}, "asked to resign", Warning,
		},
		"a waiter asked": {change(led(), func(e *Election) { e.Queue.Ballots[1].Asked = true }), nil, "led", Fine},
		"held": {
			change(led(), func(e *Election) { e.Queue.Ballots[1].Value = holds }),
			[]string{"warning held: no other candidate will lead: new disks (alice@db1)"}, "held", Warning,
		},
		"held without a leader": {
			without(500, store.Standing{Value: holds, Token: 9}, db2),
			[]string{"warning held: no candidate begins a term: new disks (alice@db1)"}, "held", Warning,
		},
		"stale": {
			change(without(500), func(e *Election) { e.Fresh, e.AsOf = false, ago(12) }),
			[]string{"warning stale 12 s: the store does not answer: what is shown is as of then"}, "stale", Warning,
		},
		"nothing is known": {
			Election{Name: "e"}, []string{"warning stale: nothing is known yet: the store does not answer"}, "stale", Warning,
		},
		"not followed": {
			change(led(), func(e *Election) { e.Err = errors.New("denied\x1b") }), []string{`critical not followed: denied\x1b`}, "not followed", Critical,
		},
		"queue unreadable": {
			change(led(), func(e *Election) { e.Queue.Err = errors.New("denied") }), []string{"warning queue unreadable 2 s: denied"}, "queue unreadable", Warning,
		},
		"twice": {
			change(led(), func(e *Election) { e.Queue.Ballots = append(e.Queue.Ballots, store.Standing{Value: "db1", Token: 12}) }),
			[]string{"notice twice: db1 stands at 1 and 3: does a process run twice?"}, "twice", Notice,
		},
		"several": {
			change(led(), func(e *Election) {
				e.Queue.Ballots = []store.Standing{{Value: "a", Asked: true}, {Value: holds}, {Value: holds}, {Value: "a"}, {Value: "a\x00"}, {Value: "a\x00"}}
				e.Queue.Asked = ago(3)
			}), []string{
				"warning asked to resign 3 s: a was asked to resign, and its work has not stopped",
				"warning held: no other candidate will lead: new disks (alice@db1)",
				`notice twice: "a\x00" stands at 5 and 6: does a process run twice?; a stands at 1 and 4: does a process run twice?`,
			}, "asked to resign", Warning,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := NewModel(Snapshot{TTL: 10 * time.Second, Bound: 11 * time.Second, Elections: []Election{c.e}}, noon)
			require.Equal(t, c.want, texts(m))
			require.Equal(t, c.state, m.Rows[0].State)
			require.Equal(t, c.level, m.Rows[0].Level)
			require.Equal(t, "1 election · 1 "+c.state, m.Summary)
		})
	}
}

func texts(m Model) (list []string) {
	for _, p := range m.Problems {
		text := string(p.Level) + " " + p.What
		if p.Since != 0 {
			if text += " "; p.AtLeast {
				text += "≥ "
			}
			text += Short(noon.Sub(p.Since.time()))
		}
		if p.Text != "" {
			text += ": " + p.Text
		}
		list = append(list, text)
	}
	return list
}

// The most urgent comes first: by what it is, then the oldest, then by name. The rows are in the same order, and those
// in which all is well come last.
func TestOrder(t *testing.T) {
	named := func(name string, e Election) Election { e.Name = name; return e }
	m := NewModel(Snapshot{Bound: 11 * time.Second, Troubles: []string{"the disk is full"}, Elections: []Election{
		named("well", led()), named("brief", without(3)), named("b", without(60)), named("a", without(50)), named("also well", led()),
	}}, noon)
	require.Equal(t, []string{
		"critical this server: the disk is full",
		"critical no leader 1 min 0 s: no candidate stands; longer than the bound of 11 s",
		"critical no leader 50 s: no candidate stands; longer than the bound of 11 s",
		"warning no leader 3 s: no candidate stands; within the bound of 11 s",
	}, texts(m))
	var names []string
	for _, r := range m.Rows {
		names = append(names, r.Name)
	}
	require.Equal(t, []string{"a", "b", "brief", "also well", "well"}, names)
	require.Equal(t, "5 elections · 2 led · 3 no leader", m.Summary)
}

// A store that does not answer is one problem, not one for each election. Of a thousand problems a hundred are shown.
func TestManyProblems(t *testing.T) {
	var s Snapshot
	for i := range 1000 {
		e := without(60)
		e.Name = fmt.Sprint(i)
		s.Elections = append(s.Elections, e)
	}
	m := NewModel(s, noon)
	require.Len(t, m.Problems, mostProblems)
	require.Equal(t, 900, m.Hidden)
	for i := range s.Elections {
		s.Elections[i].Fresh, s.Elections[i].AsOf = false, ago(20+i)
	}
	m = NewModel(s, noon)
	require.Equal(t, []string{"critical stale 20 s: the store does not answer: all that is shown is as of then"}, texts(m))
	s.Elections[7].Fresh = true
	require.Len(t, NewModel(s, noon).Problems, mostProblems, "one of them answers")
}

// The row of an election has its queue. Values are shown as text, whatever they are, and of a long one the beginning.
func TestRow(t *testing.T) {
	e := led()
	e.Changes = 3
	e.Queue.Ballots = []store.Standing{
		{Value: "db1", Token: 1<<53 + 1}, {Value: "\xff\x1b[2J", Token: 1<<64 - 1, Foreign: true}, {Value: holds, Token: 12, Asked: true},
		{Value: strings.Repeat("ü", 300), Token: 13},
	}
	row := func() Row { return NewModel(Snapshot{Elections: []Election{e}}, noon).Rows[0] }
	r := row()
	require.Equal(t, "db1", r.Leader)
	require.Equal(t, "9007199254740993", r.Token)
	require.Equal(t, 3, r.Changes)
	require.Equal(t, 4, r.Size)
	require.Zero(t, r.Read)
	require.Equal(t, []Ballot{
		{"9007199254740993", "db1", "leads"},
		{"18446744073709551615", `"\xff\x1b[2J"`, "waits, foreign"},
		{"12", "new disks (alice@db1)", "holds the election, asked to resign"},
		{"13", strings.Repeat("ü", 200) + "… (600 bytes)", "waits"},
	}, r.Queue)

	e.Queue.Behind = true // who is first in line might not be the leader
	require.Empty(t, row().Token)
	require.Equal(t, "first", row().Queue[0].Marks)
	e.Queue.Read = ago(60)
	require.Equal(t, momentOf(ago(60)), row().Read, "that is long ago")
	e.Queue.Ballots = make([]store.Standing, 50)
	require.Len(t, row().Queue, mostBallots)
	require.Equal(t, 50, row().Size)
	e.Queue = Queue{}
	require.Equal(t, -1, row().Size, "it was never read")
}

// What is seen of a queue over several reads.
func TestQueue(t *testing.T) {
	a, b := store.Standing{Value: "a", Token: 1}, store.Standing{Value: "b", Token: 2}
	called := store.Standing{Value: "a", Token: 1, Asked: true}
	var q Queue
	q = q.next([]store.Standing{a, b}, nil, ago(50), false)
	require.Equal(t, Queue{Ballots: []store.Standing{a, b}, Read: ago(50), First: ago(50)}, q)
	q = q.next([]store.Standing{called, b}, nil, ago(40), true)
	require.Equal(t, Queue{Ballots: []store.Standing{called, b}, Read: ago(40), Behind: true, First: ago(50), Asked: ago(40)}, q)
	q = q.next([]store.Standing{called, b}, nil, ago(30), false)
	require.Equal(t, ago(40), q.Asked)
	failed := q.next(nil, store.ErrDenied, ago(20), false)
	require.ErrorIs(t, failed.Err, store.ErrDenied)
	require.Equal(t, ago(30), failed.Read)
	require.NoError(t, q.next(nil, fmt.Errorf("%w: no answer", store.ErrUnavailable), ago(20), false).Err, "that the election is stale says it")
	q = failed.next([]store.Standing{b}, nil, ago(10), false)
	require.Equal(t, Queue{Ballots: []store.Standing{b}, Read: ago(10), First: ago(10)}, q)
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0 s", 0: "0 s", 340 * time.Millisecond: "340 ms", 59 * time.Second: "59 s", time.Minute: "1 min 0 s",
		3*time.Hour + 7*time.Minute: "3 h 7 min", 49 * time.Hour: "2 d 1 h",
	} {
		require.Equal(t, want, Short(d))
	}
}
