package file

import (
	"context"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// First implements engine.Driver.
func (d *driver) First(ctx context.Context, election string) (engine.State, error) {
	return ask(ctx, d, func() (first engine.State, err error) {
		err = d.dirOf(election).standing(d, func(n uint64, name string) (more bool, err error) {
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
		err = p.standing(d, func(n uint64, name string) (more bool, err error) {
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

// standing calls each with the ballots that stand, the first in line first, until it wants no more.
func (p electionDir) standing(d *driver, each func(n uint64, name string) (more bool, err error)) error {
	first, err := p.tickets(d)
	if err != nil || len(first) == 0 {
		return err
	}
	tickets, err := p.tickets(d) // the first listing might miss one that was being made, and show a later one
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, n := range tickets {
		if n > first[len(first)-1] {
			return nil
		}
		name, err := p.ticket(d, n)
		if err != nil {
			return err
		}
		if name == "" {
			continue
		}
		stands, err := p.stands(d, name, seen)
		if err != nil {
			return err
		}
		if !stands {
			continue
		}
		if more, err := each(n, name); !more || err != nil {
			return err
		}
	}
	return nil
}
