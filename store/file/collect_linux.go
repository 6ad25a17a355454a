package file

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// collect removes the tickets of ballots that are gone, and what ballots have left.
func (d *driver) collect(election string) {
	p := d.dirOf(election)
	names, _ := d.ops.list(p.ballots())
	seen := map[string]bool{}
	for _, name := range names {
		if strings.HasPrefix(name, "~") {
			d.clean(p.ballot(name))
		} else {
			_, _ = p.stands(d, name, seen) // it might have no ticket
		}
	}
	if err := p.collect(d, p.queue()); err != nil {
		d.config.Logger.Debug("can't remove old tickets", "store", d.config.name(), "election", election, "error", err)
	}
}

// collect removes the numbers in a directory of which the ballots don't stand. It makes a floor at the highest number first:
// then none of them is given out again, and a request that has found one free is void.
func (p electionDir) collect(d *driver, dir string) error {
	numbers, err := p.numbers(d, dir)
	if err != nil {
		return err
	}
	dead, seen := numbers[:0:0], map[string]bool{}
	for _, n := range numbers {
		name, _, err := pointed(d, numberIn(dir, n))
		stands := false
		if err == nil {
			stands, err = p.stands(d, name, seen)
		}
		if err != nil && !missing(err) {
			return err
		}
		if !stands {
			dead = append(dead, n)
		}
	}
	if len(dead) == 0 {
		return nil
	}
	f, err := d.numbers.floors()
	if err == nil {
		_, err = d.numbers.raise(f, max(f.floor, slices.Max(numbers)))
	}
	if err != nil {
		return err
	}
	for _, n := range dead {
		if err := d.ops.unlink(numberIn(dir, n)); err != nil && !missing(err) {
			return err
		}
	}
	return nil
}

// forgetFloors removes floors that higher ones replace. The others are made durable first.
func (d *driver) forgetFloors() {
	names, err := d.ops.list(d.floorDir())
	if err == nil && d.durable {
		err = d.ops.sync(d.floorDir())
	}
	if err != nil {
		d.config.Logger.Debug("can't remove old floors", "store", d.config.name(), "error", err)
		return
	}
	var all []floors
	for _, name := range names {
		if f, ok := parseFloor(name); ok {
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b floors) int { return cmp.Or(cmp.Compare(a.floor, b.floor), cmp.Compare(a.end, b.end)) })
	for _, f := range all[:max(len(all)-4, 0)] { // a listing that is under way finds one of those that stay
		if f.end <= all[len(all)-1].end {
			_ = d.ops.unlink(d.floorPath(f))
		}
	}
}

// tidy removes some remains of processes that did not end their sessions. Each new session removes a few, so that their
// number does not grow.
func (d *driver) tidy() {
	const few, old = 8, time.Hour
	sessions, _ := d.ops.list(d.root() + "/s")
	rand.Shuffle(len(sessions), func(i, j int) { sessions[i], sessions[j] = sessions[j], sessions[i] })
	for _, id := range sessions[:min(few, len(sessions))] {
		_, _, _ = d.alive(id)
	}
	names, _ := d.ops.list(d.root() + "/t")
	now := d.clock() // after all that is listed was made, unless that was before this boot
	for _, name := range names {
		made, _, _ := strings.Cut(name, "-")
		at, err := parseDeadline(made)
		if age := now - at; err == nil && (age < 0 || age >= old) {
			_ = os.RemoveAll(d.root() + "/t/" + name)
		}
	}
}

// Clear implements engine.Driver. The last in line is withdrawn first, so that no ballot becomes first meanwhile. The
// floors stay, so that tokens go on growing; with them the directory itself, its version and the sessions.
func (d *driver) Clear(ctx context.Context, election string) error {
	return do(ctx, d, func() (err error) {
		elections := []string{election}
		if election == "" {
			elections, err = d.electionsBelow("")
		}
		for _, election := range elections {
			if err := d.clear(d.dirOf(election)); err != nil {
				return err
			}
		}
		return err
	})
}

// clear clears one election.
func (d *driver) clear(p electionDir) error {
	for tries := 0; ; tries++ {
		if err := p.withdrawAll(d); err != nil {
			return err
		}
		for _, dir := range []string{p.queue(), p.acks()} {
			if err := d.made(d.make, func() error { return p.collect(d, dir) }); err != nil {
				return err
			}
		}
		_ = d.ops.unlink(p.leader())
		again := false
		for _, dir := range []string{p.queue(), p.acks(), p.ballots()} {
			err := d.ops.rmdir(dir)
			switch {
			case taken(err):
				again = true // an entry was made meanwhile
			case err != nil && !missing(err):
				return err
			}
		}
		if !again {
			break
		}
		if tries == 100 {
			return engine.Answered(fmt.Errorf("%w: something is made again and again in %s", store.ErrUnavailable, p))
		}
	}
	for dir := string(p); dir != d.root()+"/e"; dir = path.Dir(dir) {
		if err := d.ops.rmdir(dir); err != nil && !missing(err) {
			if taken(err) { // another election is below
				return nil
			}
			return err
		}
	}
	return nil
}

// withdrawAll withdraws all ballots, the last in line first, and removes what they have left.
func (p electionDir) withdrawAll(d *driver) error {
	tickets, err := p.numbers(d, p.queue())
	if err != nil {
		return err
	}
	for _, n := range slices.Backward(tickets) {
		name, err := p.ticket(d, n)
		if err == nil && name != "" {
			err = p.withdraw(d, name)
		}
		if err != nil {
			return err
		}
	}
	names, err := d.ops.list(p.ballots())
	for _, name := range names {
		if strings.HasPrefix(name, "~") {
			d.clean(p.ballot(name))
		} else if err := p.withdraw(d, name); err != nil { // it has no ticket yet
			return err
		}
	}
	if missing(err) {
		return nil
	}
	return err
}
