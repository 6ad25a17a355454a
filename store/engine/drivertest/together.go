package drivertest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store/engine"
)

// together checks entries that are made at the same moment.
var together = []Case{
	{
		Name: "entered-at-the-same-moment",
		Invariant: "an entry that becomes visible after another has a higher token, and what Enter tells to be ahead counts every " +
			"entry with a lower token",
		check: func(e *env) {
			began, lost := time.Now(), 0
			open := func() []*process { return []*process{e.process(), e.process(), e.process(), e.process()} }
			processes := open()
			for round := 0; round < 5 && (round == 0 || time.Since(began) < e.h.TTL); {
				entries, all := e.enterTogether(processes)
				if !all { // a session has ended, on a busy machine
					lost++
					e.check(lost < 20, "in %d rounds a session ended that is renewed, or an entry went", lost)
					processes = open()
					continue
				}
				round++
				e.inLine(entries)
			}
		},
	},
}

// enterTogether makes entries in a new election, all at once, and returns what Enter has answered, in the order of their
// tokens. It reports whether all of them stand after that.
func (e *env) enterTogether(processes []*process) (entries []engine.Entry, all bool) {
	e.Helper()
	e.turns++
	election := fmt.Sprint(e.election, "/", e.turns)
	var mu sync.Mutex
	var failed error
	all = true
	var casts sync.WaitGroup
	for slot := range engine.Slots {
		p, n := processes[slot%len(processes)], e.nonce()
		n.Slot = slot
		casts.Go(func() {
			entry, err := p.Enter(e.ctx, election, n, "value")
			for uncertain(err) && e.ctx.Err() == nil {
				time.Sleep(e.h.TTL / 1000)
				entry, err = p.Enter(e.ctx, election, n, "value")
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, engine.ErrOver):
				all = false
			case errors.Is(err, engine.ErrGone): // it does not count
			case err != nil:
				failed = err
			default:
				entry.Election = election
				entries = append(entries, entry)
			}
		})
	}
	casts.Wait()
	e.ok(failed, "enter")
	slices.SortFunc(entries, func(a, b engine.Entry) int { return cmp.Compare(a.Token, b.Token) })
	// What has gone does not come back: an entry that is listed now has stood all the time.
	stand := map[uint64]bool{}
	for _, b := range e.listOf(processes[0], election) {
		stand[b.Token] = true
	}
	for _, entry := range entries {
		all = all && stand[entry.Token]
	}
	return entries, all
}

// inLine checks what Enter has told to be ahead of entries that have all stood since.
func (e *env) inLine(entries []engine.Entry) {
	e.Helper()
	at := map[string]int{}
	for i, entry := range entries {
		e.check(i == 0 || entry.Token > entries[i-1].Token, "two entries have the token %d", entry.Token)
		at[entry.Key] = i
	}
	for i, entry := range entries {
		place := entry.Place
		ahead, known := at[place.Nearest]
		switch {
		case i == 0:
			e.check(!known, "the entry with token %d is ahead of %d", entries[ahead].Token, entry.Token)
		case place.Nearest == "":
			e.check(false, "the entries with the tokens %d and %d were both first", entries[0].Token, entry.Token)
		case known:
			e.check(ahead < i, "the entry with token %d is ahead of %d", entries[ahead].Token, entry.Token)
			e.check(place.More || i == 1, "only the entry with token %d is ahead of %d, and not %d",
				entries[ahead].Token, entry.Token, entries[(ahead+1)%i].Token)
		default: // an obstacle, or an entry of no use
			e.check(place.More, "no entry is ahead of the one with token %d, though %d stands", entry.Token, entries[0].Token)
		}
	}
}
