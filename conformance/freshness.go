package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store"
)

// freshness checks what a store says of the time as of which it knows the leader.
var freshness = []Case{
	{
		Name:     "as-of-is-not-ahead-of-the-news",
		Explains: "AsOf is never later than a moment at which the leader was right, and goes on while answers take long",
		check: func(e *env) {
			a, b := e.open(), e.open()
			ballot := e.cast(a, "a")
			e.first(ballot)
			w := e.observe(b)
			delay := e.h.TTL / 5
			for i := range 6 { // at different times between two confirmations
				delay = e.delayReplies(b, delay, "AsOf goes on", func(since time.Time) bool { return w.asOf(e).After(since) })
				e.pass(time.Duration(i) * e.h.TTL / 18)
				l, err := w.changes(func() (store.Leader, error) { return e.tryAcknowledge(ballot, fmt.Sprint(i)) })
				if !errors.Is(err, store.ErrLost) {
					e.ok(err, "acknowledge")
					delay = e.delayReplies(b, delay, "the change is told", func(time.Time) bool {
						return w.know(e, l) || ballot.Err() != nil
					})
				}
				b.DelayReplies(0)
				if err := ballot.Err(); err != nil {
					e.TB.Logf("on a busy machine the session can expire: %v", err)
					w.mightEnd()
					ballot = e.cast(a, "a")
					e.first(ballot)
				}
			}
			w.checkAsOf(e)
		},
	},
	{
		Name:     "as-of-under-constant-change",
		Explains: "AsOf is never later than a moment at which the leader was right, though the leader changes all the time",
		check: func(e *env) {
			a := e.open()
			members := []*member{e.open(), e.open(), e.open()}
			w := e.observe(members...)
			began := time.Now()
			for i := 0; time.Since(began) < 2*e.h.TTL; i++ {
				if err := e.leads(a, w, fmt.Sprint(i)); errors.Is(err, store.ErrLost) {
					e.TB.Logf("on a busy machine the session can expire: %v", err)
				} else {
					e.ok(err, "lead")
				}
				members[i%3].Delay(time.Duration(i%5) * e.h.TTL / 100)
			}
			last := w.eras[len(w.eras)-1].leader
			e.until("the last change is told", func() bool { return w.know(e, last) })
			w.checkAsOf(e)
		},
	},
	{
		Name:     "as-of-is-recent",
		Explains: "while the service answers, AsOf is no older than half a TTL and two round trips",
		check: func(e *env) {
			e.recently([]time.Duration{0, e.h.TTL / 20, e.h.TTL / 50}, func(r *recent, delay time.Duration) {
				r.member.Delay(delay)
				r.asked = time.Now()
			})
		},
	},
	{
		Name:     "as-of-is-recent-after-an-outage",
		Explains: "half a TTL and two round trips after the service has answered again, AsOf is no older than that",
		check: func(e *env) {
			e.recently([]time.Duration{e.h.TTL / 2, 2 * e.h.TTL}, func(r *recent, outage time.Duration) {
				r.member.Cut()
				e.pass(outage)
				r.member.Heal()
				e.until("the service answers", func() bool {
					ctx, cancel := context.WithTimeout(e.ctx, e.h.TTL/4)
					defer cancel()
					_, err := r.member.Ballots(ctx, e.election)
					return err == nil
				})
				r.asked = time.Now()
				for answered := r.asked; time.Since(answered) < e.h.TTL/2; {
					r.ask()
				}
			})
		},
	},
}

// recently checks for a TTL, in one member for each duration at the same time, the age of what it knows of a leader. Before
// that it calls prepare, which sets asked.
func (e *env) recently(each []time.Duration, prepare func(r *recent, d time.Duration)) {
	e.TB.Helper()
	ballot := e.cast(e.open(), "a")
	e.first(ballot)
	e.acknowledge(ballot, "a")
	var all []*recent
	for range each {
		m := e.open()
		r := &recent{env: e, member: m, witness: e.observe(m)}
		e.until("the leader is known", func() bool { return !r.witness.asOf(e).IsZero() })
		all = append(all, r)
	}
	var checking sync.WaitGroup
	for i, r := range all {
		checking.Go(func() {
			prepare(r, each[i])
			r.check(e.h.TTL)
		})
	}
	checking.Wait()
}

// recent checks the age of what a member knows.
type recent struct {
	*env
	member  *member
	witness *witness
	trips   []trip
	asked   time.Time // when the last trip ended
}

// check checks the age of what the member knows, again and again, for some time.
func (r *recent) check(d time.Duration) {
	r.TB.Helper()
	for began := time.Now(); time.Since(began) < d; {
		now := r.ask()
		asOf := r.witness.asOf(r.env)
		longest := longest(r.trips, asOf)
		stalled := r.meter.Stalled() - stalledUntil(r.trips, asOf)
		bound := r.h.TTL/2 + 2*longest + r.h.TTL/20 + stalled // a twentieth for the time from an answer to its effect
		r.env.check(now.Sub(asOf) <= bound, "AsOf is %v old; round trips take %v; since then this process stood still for %v",
			now.Sub(asOf), longest, stalled)
	}
}

// ask makes a trip, and returns when it ended. A trip begins when the one before ended, so that it includes the time for
// which this process stood still.
func (r *recent) ask() time.Time {
	r.TB.Helper()
	r.pass(r.h.TTL / 100)
	r.ballots(r.member)
	now := time.Now()
	r.trips = append(r.trips, trip{r.asked, now, r.meter.Stalled()})
	r.asked = now
	return now
}

// leads lets a member lead for a moment, and acknowledge several times.
func (e *env) leads(m *member, w *witness, value string) error {
	e.TB.Helper()
	ballot := e.cast(m, value)
	err := ballot.Wait(e.ctx)
	for j := 0; j < 5 && err == nil; j++ {
		_, err = w.changes(func() (store.Leader, error) { return e.tryAcknowledge(ballot, fmt.Sprint(value, j)) })
		e.pass(e.h.TTL / 500)
	}
	if err == nil {
		_, err = w.changes(func() (store.Leader, error) { return store.Leader{}, ballot.Withdraw(e.ctx) })
	}
	return err
}

// trip is how long a request was on its way.
type trip struct {
	sent, answered time.Time
	stalled        time.Duration // for how long this process had stood still when the answer came
}

// stalledUntil returns for how long this process had stood still at that time, or a little before.
func stalledUntil(trips []trip, at time.Time) (stalled time.Duration) {
	for _, t := range trips {
		if t.answered.Before(at) {
			stalled = t.stalled
		}
	}
	return stalled
}

// longest returns the longest of the trips that were under way after that time.
func longest(trips []trip, after time.Time) (most time.Duration) {
	for _, t := range trips {
		if t.answered.After(after) {
			most = max(most, t.answered.Sub(t.sent))
		}
	}
	return most
}

// witness compares what stores say with what happens.
type witness struct {
	eras []era // used by the case's own goroutine alone

	mu    sync.Mutex
	heard []heard // guarded by mu, as are all below: the answers of all stores
	last  []store.Known
	err   error // an error of Observe that the case has not caused
}

// era is a period with one leader, or with none.
type era struct {
	leader   store.Leader
	from, to time.Time // before it began, and after it ended; to is zero while it lasts
}

// heard is an answer of a store.
type heard struct {
	store.Known
	at time.Time
}

// observe begins to observe the election through some members, until the case ends.
func (e *env) observe(members ...*member) *witness {
	e.TB.Helper()
	w := &witness{eras: []era{{from: time.Now()}}, last: make([]store.Known, len(members))}
	ctx, cancel := context.WithCancel(e.ctx)
	var observing sync.WaitGroup
	for i, m := range members {
		observing.Go(func() {
			var prev *store.Known
			for {
				known, err := m.Observe(ctx, e.election, prev)
				if err == nil && prev != nil {
					err = isNews(known, *prev)
				}
				if ctx.Err() != nil {
					return
				}
				w.hear(i, known, err)
				if err != nil {
					return
				}
				prev = &known
			}
		})
	}
	e.onClose(func() { cancel(); observing.Wait() })
	return w
}

func (w *witness) hear(i int, known store.Known, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last[i], w.err = known, err
	w.heard = append(w.heard, heard{known, time.Now()})
}

// asOf returns the earliest AsOf of the members.
func (w *witness) asOf(e *env) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.ok(w.err, "observe")
	least := w.last[0].AsOf
	for _, known := range w.last {
		if known.AsOf.Before(least) {
			least = known.AsOf
		}
	}
	return least
}

// know reports whether all members know the leader.
func (w *witness) know(e *env, leader store.Leader) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.ok(w.err, "observe")
	return !slices.ContainsFunc(w.last, func(known store.Known) bool { return known.Leader != leader })
}

// changes records a change of leader. If it fails since the session has expired, the leader might stay until the next
// change that succeeds, or might have gone at any time of the present era.
func (w *witness) changes(change func() (store.Leader, error)) (store.Leader, error) {
	next := era{from: time.Now()}
	var err error
	if next.leader, err = change(); err != nil {
		w.mightEnd()
		return next.leader, err
	}
	for i, now := len(w.eras)-1, time.Now(); i >= 0 && w.eras[i].to.IsZero(); i-- {
		w.eras[i].to = now
	}
	w.eras = append(w.eras, next)
	return next.leader, nil
}

// mightEnd records that the leader might have gone at any time since the last change.
func (w *witness) mightEnd() {
	w.eras = append(w.eras, era{from: w.eras[len(w.eras)-1].from})
}

// checkAsOf checks each answer of a store: at its AsOf, the leader that it names must not have been over.
func (w *witness) checkAsOf(e *env) {
	e.TB.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.heard {
		var over time.Time // when the answer was right for the last time
		right := true      // unless it was over by AsOf
		for _, era := range w.eras {
			if era.leader == h.Leader && !era.from.After(h.at) {
				over, right = era.to, era.to.IsZero() || !h.AsOf.After(era.to)
			}
		}
		e.check(right, "%v is said to lead as of %v after another leader was acknowledged", h.Leader, h.AsOf.Sub(over))
	}
}

// delayReplies delays the replies to a member until the condition holds since a time. The delay might be longer than the round
// trips with which a store works. So it is halved when the condition has not held for a TTL. delayReplies returns the last delay.
func (e *env) delayReplies(m *member, delay time.Duration, what string, holds func(since time.Time) bool) time.Duration {
	e.TB.Helper()
	for ; ; delay = max(delay/2, e.h.TTL/40) {
		m.DelayReplies(delay)
		began, held := time.Now(), false
		e.until(what, func() bool {
			held = holds(began)
			return held || time.Since(began) > e.h.TTL
		})
		if held {
			return delay
		}
	}
}
