package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership/operate"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
)

// foreign is a store whose ballots are of another program.
type foreign struct {
	*memory.Store
	asked bool
}

func (f *foreign) Ballots(ctx context.Context, election string) ([]store.Standing, error) {
	list, err := f.Store.Ballots(ctx, election)
	for i := range list {
		list[i].Foreign = true
	}
	return list, err
}

func (f *foreign) RequestResignation(context.Context, string, uint64) error {
	f.asked = true
	return errors.ErrUnsupported
}

var schemes atomic.Int64 // a scheme is registered once

// A leader of another program takes no requests to resign: stepdown says so at once, before it asks for confirmation.
func TestForeignLeader(t *testing.T) {
	service := memory.NewService()
	open := func() *memory.Store {
		st, err := memory.Open(service, nil)
		require.NoError(t, err)
		return st
	}
	st := &foreign{Store: open()}
	name := fmt.Sprintf("foreign%d", schemes.Add(1))
	store.Register(name, func(context.Context, *store.URL) (store.Store, error) { return st, nil })
	peer := open()
	defer peer.Close()
	ballot, err := peer.Cast(t.Context(), "job", "peer")
	require.NoError(t, err)
	require.NoError(t, ballot.Wait(t.Context()))
	_, err = ballot.Acknowledge(t.Context(), "peer")
	require.NoError(t, err)

	var out strings.Builder
	a := &app{in: strings.NewReader(""), out: &out, errs: &out}
	err = a.run([]string{"stepdown", "--store=" + name + "://host/", "--election=job"})
	require.ErrorContains(t, err, fmt.Sprintf("peer, which leads in election \"job\" on %s://host/ with token %d, takes no requests to resign", name, ballot.Token()))
	code, advice := explain(err)
	require.Equal(t, exitNo, code)
	require.Contains(t, advice, "end that program")
	require.False(t, st.asked)
	require.Empty(t, out.String())
}

// An operation whose time is over while a candidate does not step behind names that candidate: the store has answered.
func TestOperateNamesWhoIsInTheWay(t *testing.T) {
	s := &session{timeout: time.Millisecond}
	waiter := store.Standing{Value: "slow", Token: 2}
	_, err := s.operate(t.Context(), func(ctx context.Context) (operate.Outcome, error) {
		<-ctx.Done()
		return operate.Outcome{
			Election: "job", Behind: []store.Standing{waiter}, After: operate.Queue{Ballots: []store.Standing{{Token: 1}, waiter}},
		}, ctx.Err()
	})
	require.ErrorContains(t, err, `slow, which was asked to step behind, still stands in election "job"`)
	code, _ := explain(err)
	require.Equal(t, exitNo, code)

	_, err = s.operate(t.Context(), func(ctx context.Context) (operate.Outcome, error) {
		<-ctx.Done()
		return operate.Outcome{Election: "job"}, ctx.Err()
	})
	code, _ = explain(err)
	require.Equal(t, exitUnavailable, code)
}
