package engine

import (
	"context"
	"slices"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
)

// Ballots implements store.Store.
func (e *Engine) Ballots(ctx context.Context, election string) (list []store.Standing, err error) {
	if err := store.CheckElection(election); err != nil {
		return nil, err
	}
	err = e.repeat(ctx, "list the ballots", election, func(ctx context.Context) (err error) {
		list, err = e.driver.Ballots(ctx, election)
		return err
	})
	return list, err
}

// Elections implements store.Store.
func (e *Engine) Elections(ctx context.Context) (names []string, err error) {
	err = e.repeat(ctx, "list the elections", "", func(ctx context.Context) (err error) {
		names, err = e.driver.Elections(ctx)
		return err
	})
	names = slices.DeleteFunc(names, func(name string) bool { return store.CheckElection(name) != nil })
	slices.Sort(names)
	return slices.Compact(names), err
}

// RequestResignation implements store.Store.
func (e *Engine) RequestResignation(ctx context.Context, election string, token uint64) error {
	if err := store.CheckElection(election); err != nil {
		return err
	}
	return e.repeat(ctx, "request the resignation", election, func(ctx context.Context) error {
		return e.driver.RequestResignation(ctx, election, token)
	})
}

// Clear implements store.Store.
func (e *Engine) Clear(ctx context.Context, election string) error {
	if election != "" {
		if err := store.CheckElection(election); err != nil {
			return err
		}
	}
	return e.repeat(ctx, "clear", election, func(ctx context.Context) error { return e.driver.Clear(ctx, election) })
}

// repeat makes a call whose request may be sent more than once: until it is answered, its error is final, or ctx has
// ended.
func (e *Engine) repeat(ctx context.Context, op, election string, request func(context.Context) error) error {
	ctx, done, err := e.call(ctx)
	if err != nil {
		return e.life.Fail(op, election, err)
	}
	defer done()
	var last error // of the attempt before
	for wait := (adapter.Retries{}); ; wait.Pause(ctx) {
		if ctx.Err() != nil { // nothing more is sent
			return e.life.Fail(op, election, adapter.Ended(ctx, nil, last))
		}
		err := e.gate.send(ctx, plain, func() error { return request(ctx) })
		again := adapter.Uncertain(err)
		err = after(last, err)
		switch {
		case err == nil:
			e.worked.Store(true)
			return nil
		case ctx.Err() != nil:
			return e.life.Fail(op, election, adapter.Ended(ctx, err, last))
		case !again:
			return e.life.Fail(op, election, err)
		}
		last = err
	}
}
