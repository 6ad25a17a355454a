package serve

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-leadership/leadership/internal/visible"
	"github.com/go-leadership/leadership/operate"
	"github.com/go-leadership/leadership/store"
)

// Snapshot is what the server knows at a moment.
type Snapshot struct {
	TTL, Bound time.Duration // of the store: Bound is how long an election may be without a leader after a crash
	Troubles   []string      // of the server itself
	Elections  []Election
}

// Election is what the server knows of one election.
type Election struct {
	Name     string
	Expected bool         // --election names it: it should have a leader
	Leader   store.Leader // the zero Leader if there is none
	Led      bool         // there has been one
	Since    time.Time    // since when the server has seen that leader, or none; zero: nothing is known yet
	AtLeast  bool         // it might be so for longer: the server did not see the change
	AsOf     time.Time    // as of when that is right
	Fresh    bool         // AsOf is no older than the TTL
	Changes  int          // of the leader in the last hour
	Queue    Queue
	Denied   error // the last answer, if it is not fresh, and the store answers with a denial
	Err      error // why the election is not followed any more
}

// Queue is the ballots of an election as they were read last.
type Queue struct {
	Ballots []store.Standing // the first in line first
	Read    time.Time        // zero: never
	Behind  bool             // the leader has changed since
	First   time.Time        // since when the server has seen this ballot first in line
	Asked   time.Time        // since when it has seen that the first in line is asked to resign
	Err     error            // of the last attempt to read it
}

// Model is what the page shows. It is a function of what is known, and of the time.
type Model struct {
	Problems []Problem `json:"problems"` // the most urgent first
	Hidden   int       `json:"hidden"`   // how many problems are left out
	Rows     []Row     `json:"-"`        // the most urgent first
	Summary  string    `json:"summary"`
}

// Problem is something to look at.
type Problem struct {
	rank     int
	Level    Level  `json:"level"`
	What     string `json:"what"`
	Election string `json:"election,omitempty"` // none: of all
	Text     string `json:"text,omitempty"`
	Since    Moment `json:"since,omitempty"`
	AtLeast  bool   `json:"at_least,omitempty"`
}

// Level is how urgent something is. The page shows it by a colour, and says what it is in words.
type Level string

// The levels.
const (
	Critical Level = "critical"
	Warning  Level = "warning"
	Notice   Level = "notice"
	Fine     Level = "fine"
	Idle     Level = "idle"
)

// Moment is a time in milliseconds, as JavaScript counts them; 0: not known.
type Moment int64

func momentOf(t time.Time) Moment {
	if t.IsZero() {
		return 0
	}
	return Moment(t.UnixMilli())
}

func (m Moment) time() time.Time { return time.UnixMilli(int64(m)) }

// Row is an election on the page. Tokens are text, since JavaScript rounds above 2^53.
type Row struct {
	Rank    int      `json:"rank"` // of the most urgent problem
	Name    string   `json:"name"`
	Level   Level    `json:"level"`
	State   string   `json:"state"`
	Leader  string   `json:"leader,omitempty"`
	Token   string   `json:"token,omitempty"`
	Since   Moment   `json:"since,omitempty"`
	AtLeast bool     `json:"at_least,omitempty"`
	Changes int      `json:"changes"`
	Size    int      `json:"size"` // of the queue; -1: not known
	Queue   []Ballot `json:"queue,omitempty"`
	Read    Moment   `json:"read,omitempty"` // when the queue was read, if that is long ago
}

// Ballot is a ballot on the page.
type Ballot struct {
	Token string `json:"token"`
	Value string `json:"value"`
	Marks string `json:"marks"` // what is to say about it
}

// ChangeRow is a change on the page.
type ChangeRow struct {
	Time     Moment `json:"time"`
	Election string `json:"election"`
	Leader   string `json:"leader"` // empty: there is none
	Gap      string `json:"gap,omitempty"`
	AtStart  bool   `json:"at_start,omitempty"`
}

func rowOf(c Change) ChangeRow {
	r := ChangeRow{Time: momentOf(c.Time), Election: c.Election, AtStart: c.AtStart}
	if c.Leader != nil {
		r.Leader = shorten(c.Leader.Exact())
	}
	if c.Gap != nil {
		r.Gap = Short(time.Duration(*c.Gap * float64(time.Second)))
	}
	return r
}

// The limits of what the page shows: JSON has all.
const (
	mostProblems = 100
	mostBallots  = 20
	mostValue    = 200              // characters of a value
	oldQueue     = 40 * time.Second // a round of reads takes no longer, with 1,000 elections
)

// The ranks of problems, the most urgent first.
const (
	ofServer = iota
	leaderless
	unfollowed
	briefly // leaderless, but for no longer than the store's bound
	takingOver
	asked
	held
	stale
	unreadable
	twice
	none
)

// kinds say of each rank how urgent the problem is, and what.
var kinds = [none]struct {
	level Level
	what  string
}{
	ofServer: {Critical, "this server"}, leaderless: {Critical, "no leader"}, unfollowed: {Critical, "not followed"},
	briefly: {Warning, "no leader"}, takingOver: {Warning, "taking over"}, asked: {Warning, "asked to resign"}, held: {Warning, "held"},
	stale: {Warning, "stale"}, unreadable: {Warning, "queue unreadable"}, twice: {Notice, "twice"},
}

func problem(rank int, election, text string, since time.Time) Problem {
	return Problem{rank: rank, Level: kinds[rank].level, What: kinds[rank].what, Election: election, Text: text, Since: momentOf(since)}
}

// NewModel returns what the page shows at a time.
func NewModel(s Snapshot, now time.Time) Model {
	var m Model
	problems := []Problem{} // not null in JSON
	for _, text := range s.Troubles {
		problems = append(problems, problem(ofServer, "", visible.Text(text), time.Time{}))
	}
	silent, last := len(s.Elections) > 1, time.Time{} // with one election that says so by itself
	counts := map[string]int{}
	for _, e := range s.Elections {
		found := e.problems(s, now)
		row := e.row(found, now)
		counts[row.State]++
		m.Rows = append(m.Rows, row)
		problems = append(problems, found...)
		silent = silent && row.Rank == stale && e.Denied == nil
		if e.AsOf.After(last) {
			last = e.AsOf
		}
	}
	if silent { // a line for each election would say the same
		problems = slices.DeleteFunc(problems, func(p Problem) bool { return p.rank == stale })
		problems = append(problems, Problem{rank: ofServer, Level: Critical, What: "stale", Text: "the store does not answer: all that is shown is as of then", Since: momentOf(last)})
	}
	slices.SortFunc(m.Rows, func(a, b Row) int { return cmp.Or(cmp.Compare(a.Rank, b.Rank), strings.Compare(a.Name, b.Name)) })
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.Since, b.Since), strings.Compare(a.Election, b.Election))
	})
	shown := min(len(problems), mostProblems)
	m.Problems, m.Hidden = problems[:shown], len(problems)-shown
	m.Summary = summary(len(s.Elections), counts)
	return m
}

// summary counts the elections, and those in each state.
func summary(all int, counts map[string]int) string {
	text := strconv.Itoa(all) + " elections"
	if all == 1 {
		text = "1 election"
	}
	for _, state := range states {
		if n := counts[state]; n > 0 {
			text += fmt.Sprintf(" · %d %s", n, state)
		}
	}
	return text
}

// states are all states of an election, in the order of the summary.
var states = []string{"led", "no leader", "not followed", "taking over", "asked to resign", "held", "stale", "queue unreadable", "twice", "empty"}

// problems returns what is wrong with an election, the most urgent first.
func (e *Election) problems(s Snapshot, now time.Time) (list []Problem) {
	add := func(rank int, text string, since time.Time) { list = append(list, problem(rank, e.Name, text, since)) }
	if e.Err != nil {
		add(unfollowed, visible.Text(e.Err.Error()), time.Time{})
		return list
	}
	if !e.Fresh { // the rest is not known
		text := "the store does not answer"
		if e.Denied != nil {
			text = visible.Text(e.Denied.Error())
		}
		if e.AsOf.IsZero() {
			text = "nothing is known yet: " + text
		} else {
			text += ": what is shown is as of then"
		}
		add(stale, text, e.AsOf)
		return list
	}
	q := e.Queue
	reason, isHeld := q.held()
	if e.Leader.Revision == 0 {
		e.leaderless(s, now, isHeld, add)
		for i := range list {
			list[i].AtLeast = e.AtLeast && list[i].Since == momentOf(e.Since)
		}
	}
	if first := q.first(); first.Asked && e.Leader.Revision != 0 && !q.Behind {
		add(asked, shorten(first.Value)+" was asked to resign, and its work has not stopped", q.Asked)
	}
	if isHeld {
		text := "no other candidate will lead: "
		if e.Leader.Revision == 0 {
			text = "no candidate begins a term: "
		}
		add(held, text+shorten(reason), time.Time{})
	}
	if q.Err != nil {
		add(unreadable, visible.Text(q.Err.Error()), q.Read)
	}
	if text := q.twice(); text != "" {
		add(twice, text, time.Time{})
	}
	return list
}

// leaderless adds the problem that there is no leader. A held election has none on purpose. One in which no candidate
// stands, and none is known to have led, may be over.
func (e *Election) leaderless(s Snapshot, now time.Time, isHeld bool, add func(int, string, time.Time)) {
	q := e.Queue
	rank, text := briefly, "within the bound of "+Short(s.Bound)
	if now.Sub(e.Since) > s.Bound {
		rank, text = leaderless, "longer than the bound of "+Short(s.Bound)
	}
	known := !q.Read.IsZero() && !q.Behind
	stands := known && len(q.Ballots) > 0
	switch {
	case isHeld:
		return
	case known && !stands && (e.Led || e.Expected):
		add(rank, "no candidate stands; "+text, e.Since)
	case rank == leaderless && stands, !known:
		add(rank, text, e.Since)
	}
	if stands {
		add(takingOver, shorten(q.first().Value)+" is first in line, and has not acknowledged", q.First)
	}
}

func (q Queue) first() store.Standing {
	if len(q.Ballots) == 0 {
		return store.Standing{}
	}
	return q.Ballots[0]
}

// held reports whether an operator holds the election, and why.
func (q Queue) held() (reason string, held bool) {
	for _, b := range q.Ballots {
		if reason, held := operate.Held(b.Value); held {
			return reason, true
		}
	}
	return "", false
}

// twice says which values have several ballots.
func (q Queue) twice() string {
	positions := map[string][]string{}
	for i, b := range q.Ballots {
		if _, held := operate.Held(b.Value); !held {
			positions[b.Value] = append(positions[b.Value], strconv.Itoa(i+1))
		}
	}
	var texts []string
	for value, list := range positions {
		if len(list) > 1 {
			texts = append(texts, fmt.Sprintf("%s stands at %s: does a process run twice?", shorten(value), strings.Join(brief(list), " and ")))
		}
	}
	slices.Sort(texts)
	return strings.Join(brief(texts), "; ")
}

// brief returns the first of a list, and says how many more there are.
func brief(list []string) []string {
	const most = 5
	if more := len(list) - most; more > 0 {
		list = append(list[:most:most], fmt.Sprintf("%d more", more))
	}
	return list
}

// row returns the row of an election with these problems.
func (e *Election) row(found []Problem, now time.Time) Row {
	q := e.Queue
	r := Row{
		Rank: none, Name: e.Name, Level: Fine, State: "led", Since: momentOf(e.Since), AtLeast: e.AtLeast, Changes: e.Changes, Size: len(q.Ballots),
	}
	switch {
	case len(found) > 0:
		r.Rank, r.Level, r.State = found[0].rank, found[0].Level, found[0].What
	case e.Leader.Revision == 0:
		r.Level, r.State = Idle, "empty"
	}
	leads := e.Leader.Revision != 0
	if leads {
		r.Leader = shorten(e.Leader.Value)
	}
	if q.Read.IsZero() {
		r.Size = -1
		return r
	}
	if leads && !q.Behind && len(q.Ballots) > 0 {
		r.Token = strconv.FormatUint(q.Ballots[0].Token, 10)
	}
	if now.Sub(q.Read) > oldQueue {
		r.Read = momentOf(q.Read)
	}
	for i, b := range q.Ballots[:min(len(q.Ballots), mostBallots)] {
		r.Queue = append(r.Queue, ballotOf(i, b, leads, q.Behind))
	}
	return r
}

// ballotOf returns the ballot at a position of the queue; 0 is first in line. If the queue was read before the leader
// changed, it is not known what the first in line does.
func ballotOf(at int, b store.Standing, led, behind bool) Ballot {
	shown := Ballot{Token: strconv.FormatUint(b.Token, 10), Value: shorten(b.Value)}
	mark := "waits"
	reason, held := operate.Held(b.Value)
	switch {
	case held:
		mark, shown.Value = "holds the election", shorten(reason)
	case at == 0 && behind:
		mark = "first"
	case at == 0 && led:
		mark = "leads"
	case at == 0:
		mark = "first, not acknowledged"
	}
	if b.Asked {
		mark += ", asked to resign"
	}
	if b.Foreign {
		mark += ", foreign"
	}
	shown.Marks = mark
	return shown
}

// shorten returns a value for people, and not more than the beginning of a long one.
func shorten(value string) string {
	text := visible.Value(value)
	if n := utf8.RuneCountInString(text); n > mostValue {
		return string([]rune(text)[:mostValue]) + fmt.Sprintf("… (%d bytes)", len(value))
	}
	return text
}

// Short returns a duration for people, as the script of the page does.
func Short(d time.Duration) string {
	s := max(0, int64(d/time.Second))
	switch {
	case d > 0 && d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%d min %d s", s/60, s%60)
	case s < 48*3600:
		return fmt.Sprintf("%d h %d min", s/3600, s/60%60)
	}
	return fmt.Sprintf("%d d %d h", s/86400, s/3600%24)
}
