package drivertest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/store/engine"
)

// changes is how many changes a case looks at.
const changes = 20

// watches checks what watches tell.
var watches = []Case{
	{
		Name:      "news-never-goes-back",
		Invariant: "what is told of one key never goes back, from one watch of the key to the next neither",
		check: func(e *env) {
			a, b := e.process(), e.driver()
			entry := e.enter(a)
			highest, n := uint64(0), e.leader(b)
			look := func() {
				last := highest
				for _, one := range n.all() {
					if one.State != nil {
						revision := one.State.Leader.Revision
						e.check(revision >= last, "revision %d was told after %d", revision, last)
						last = revision
					}
				}
				highest = last
			}
			for i := range changes {
				e.acknowledge(a, entry, fmt.Sprint(i))
				if i%3 == 0 {
					look()
					n = e.leader(b)
				}
				time.Sleep(e.h.TTL / 200)
			}
			look()
		},
	},
	{
		Name:      "every-change-is-told",
		Invariant: "from the moment that a watch is set, every change is told, or that the watch is over",
		check: func(e *env) {
			a, b := e.process(), e.driver()
			entry := e.enter(a)
			n := e.leader(b)
			revision := e.acknowledge(a, entry, "value")
			e.until("the acknowledgement is told", func() bool {
				if n.stale() {
					n = e.leader(b)
				}
				s, _ := n.state()
				return s.Leader.Value == "value" && s.Leader.Revision == revision
			})
			e.remove(a, entry)
			e.until("its end is told", func() bool {
				if n.stale() {
					n = e.leader(b)
				}
				s, told := n.state()
				return told && s.Leader.Revision == 0
			})
			e.gone(b, entry.Key)
		},
	},
	{
		Name:      "as-of-is-behind-the-news",
		Invariant: "News.AsOf comes behind all news of the time before it",
		check: func(e *env) {
			a, b := e.process(), e.driver()
			entry := e.enter(a)
			began := time.Now() // some drivers wait with Confirm for the next renewal
			for i := 0; i < changes && time.Since(began) < 4*e.h.TTL; i++ {
				n := e.leader(b)
				revision := e.acknowledge(a, entry, fmt.Sprint(i))
				after := time.Now()
				for range 3 {
					e.finally("confirm", func() error { return b.Confirm(e.ctx) })
					time.Sleep(e.h.TTL / 100)
				}
				known, stale := uint64(0), false
				for _, one := range n.all() {
					if one.State != nil {
						known = one.State.Leader.Revision
					}
					stale = stale || one.Over || one.State == nil && one.AsOf.IsZero()
					late := one.AsOf.After(after)
					e.check(!late || stale || known >= revision, "the leader is right as of a time after an acknowledgement that was not told")
				}
			}
		},
	},
	{
		Name:      "the-present-is-told",
		Invariant: "where WatchLeader tells an AsOf before the call, Confirm makes the watch tell a later one, or a new watch does",
		check: func(e *env) {
			b := e.driver()
			for range 3 { // the answers of servers that answer by themselves differ
				called := time.Now()
				n := e.leader(b)
				e.until("the leader is right as of a time after the call", func() bool {
					dated := false
					for _, one := range n.all() {
						dated = dated || !one.AsOf.IsZero()
						if !one.AsOf.Before(called) {
							return true
						}
					}
					if !dated { // the answer counts from its request
						return true
					}
					if n.stale() {
						n = e.leader(b)
					}
					e.finally("confirm", func() error { return b.Confirm(e.ctx) })
					return false
				})
			}
		},
	},
	{
		Name: "streams-are-in-order",
		Invariant: "once WatchEntry has returned, a watch tells the end of an entry after the watches of its stream have told " +
			"all earlier ends of entries behind it",
		check: func(e *env) {
			a, b, c := e.process(), e.process(), e.driver()
			checked := 0
			for range changes {
				first, second := e.enter(a), e.enter(b)
				told := make(chan string, 100) // more than is told: tell does not block
				watch := func(entry engine.Entry, name string) (*news, uint64) {
					n, w := e.entry(c, entry.Key)
					n.mu.Lock()
					n.log = func(one engine.News) {
						if one.State != nil && one.State.Token == 0 {
							told <- name
						}
					}
					n.mu.Unlock()
					return n, w.Stream
				}
				n, one := watch(first, "first")
				_, two := watch(second, "second")
				e.remove(b, second)
				e.remove(a, first)
				if one == 0 || one != two {
					continue
				}
				e.until("the end of an entry is told, or that of the first's watch", func() bool { return len(told) > 0 || n.stale() })
				if len(told) > 0 {
					checked++
					e.check(<-told == "second", "the end of the first entry was told before the earlier one of the second")
				}
			}
			if checked == 0 {
				e.skip("no two watches were of one stream, or none told an end")
			}
		},
	},
	{
		Name:      "reads-follow-their-call",
		Invariant: "WatchEntry, WatchLeader and Ahead answer by a request that was sent after they were called",
		check: func(e *env) {
			a, b := e.process(), e.process()
			for i := range changes {
				entry := e.enter(a)
				revision := e.acknowledge(a, entry, fmt.Sprint(i))
				s, told := e.leader(b).state()
				e.check(told && s.Leader.Revision >= revision, "revision %d was read after %d", s.Leader.Revision, revision)
				second, third := e.enter(b), e.enter(b)
				e.check(third.Place.Nearest == second.Key && third.Place.More, "ahead of the third is %+v", third.Place)
				n, _ := e.entry(b, entry.Key) // it may tell what Enter has read
				s, _ = n.state()
				e.check(s.Token == entry.Token && s.Session == a.ID(), "an entry was read as %+v", s)
				e.remove(b, second)
				third.Place = e.ahead(b, third)
				e.check(third.Place.Nearest == entry.Key, "ahead is %+v", third.Place)
				e.remove(a, entry)
				n, _ = e.entry(b, entry.Key)
				s, told = n.state()
				e.check(told && s.Token == 0, "an entry that has gone was read as %+v", s)
				place := e.ahead(b, third)
				e.check(place.Nearest != entry.Key, "an entry that has gone is ahead")
				e.remove(b, third)
				_, err := b.Ahead(e.ctx, third)
				e.check(err != nil, "nothing is said to be ahead of an entry that has gone")
			}
		},
	},
	{
		Name:      "first-has-none-ahead",
		Invariant: "State.First is told of no entry that has another ahead of it, and not once the entry has gone",
		check: func(e *env) {
			a, b, c := e.process(), e.process(), e.driver()
			owners := []*process{a, b, a, b} // one session has a ballot that led, and one that waits
			var line []engine.Entry
			for _, p := range owners {
				line = append(line, e.enter(p))
			}
			var removed, marks, wrong atomic.Int64
			look := func(when string) {
				e.Helper()
				for i, entry := range line {
					n := &news{log: func(one engine.News) {
						switch {
						case one.State == nil || !one.State.First:
						case one.State.Token == 0 || int64(i) > removed.Load():
							wrong.Add(1)
						default:
							marks.Add(1)
						}
					}}
					var w engine.Watch // stays: it is told of what comes
					e.finally("watch an entry", func() (err error) {
						w, err = c.WatchEntry(e.ctx, entry.Key, n.tell)
						return err
					})
					e.onClose(w.Stop)
				}
				e.check(wrong.Load() == 0, "%s, an entry is said to be first that is not", when)
			}
			look("when all have been entered")
			for i, entry := range line {
				e.acknowledge(owners[i], entry, "value")
				look("when the first in line has been acknowledged")
				last := line[len(line)-1].Token
				e.finally("request a resignation", func() error {
					if err := c.RequestResignation(e.ctx, e.election, last); !errors.Is(err, errors.ErrUnsupported) {
						return err
					}
					return nil
				})
				look("when the last in line is asked to resign")
				removed.Add(1) // before it goes: what is told of the next may come at once
				e.remove(owners[i], entry)
				look("when the first in line has gone")
			}
			if marks.Load() == 0 {
				e.skip("the driver does not tell State.First")
			}
		},
	},
}
