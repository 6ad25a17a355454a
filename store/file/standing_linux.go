package file

import (
	"context"
	"slices"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// First implements engine.Driver.
func (d *driver) First(ctx context.Context, election string) (engine.State, error) {
	return ask(ctx, d, func() (first engine.State, err error) {
		p := d.dirOf(election)
		tickets, err := p.inLine(d)
		if err != nil {
			return first, err
		}
		err = p.standing(d, tickets, func(n uint64, name string) (more bool, err error) {
			first.Token = n
			first.Session, first.Nonce, _ = splitBallot(name)
			return false, nil
		})
		return first, err
	})
}

// Ballots implements engine.Driver.
func (d *driver) Ballots(ctx context.Context, election string) ([]store.Standing, error) {
	return ask(ctx, d, func() (list []store.Standing, err error) {
		p := d.dirOf(election)
		tickets, err := p.inLine(d)
		if err != nil {
			return nil, err
		}
		err = p.standing(d, tickets, func(n uint64, name string) (more bool, err error) {
			value, err := d.ops.read(p.ballot(name) + "/value")
			if err == nil {
				var asked bool
				asked, err = d.ops.exists(p.ballot(name) + "/" + resigns)
				list = append(list, store.Standing{Value: value, Token: n, Asked: asked})
			}
			if missing(err) { // it has been withdrawn
				err = nil
			}
			return true, err
		})
		return list, err
	})
}

// inLine returns the tickets of an election. A listing might miss one that is being made, and show a later one. So they are
// listed again, up to the last one that was there before.
func (p electionDir) inLine(d *driver) ([]uint64, error) {
	first, err := p.numbers(d, p.queue())
	if err != nil || len(first) == 0 {
		return nil, err
	}
	tickets, err := p.numbers(d, p.queue())
	return slices.DeleteFunc(tickets, func(n uint64) bool { return n > first[len(first)-1] }), err
}
