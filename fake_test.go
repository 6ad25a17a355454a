package leadership_test

import (
	"context"

	"github.com/go-leadership/leadership/store"
)

// fakeStore does what store/memory never does. Methods that a test does not replace go to the store below.
type fakeStore struct {
	store.Store
	cast    func(ctx context.Context, election, value string) (store.Ballot, error)
	observe func(ctx context.Context, election string, prev *store.Known) (store.Known, error)
	worked  func() bool
}

func (f *fakeStore) Cast(ctx context.Context, election, value string) (store.Ballot, error) {
	if f.cast == nil {
		return f.Store.Cast(ctx, election, value)
	}
	return f.cast(ctx, election, value)
}

func (f *fakeStore) Observe(ctx context.Context, election string, prev *store.Known) (store.Known, error) {
	if f.observe == nil {
		return f.Store.Observe(ctx, election, prev)
	}
	return f.observe(ctx, election, prev)
}

func (f *fakeStore) Worked() bool {
	if f.worked == nil {
		return f.Store.Worked()
	}
	return f.worked()
}

// changing returns a store that passes each ballot through a function before the core sees it.
func changing(st store.Store, change func(b *fakeBallot)) *fakeStore {
	return &fakeStore{
		Store: st,
		cast: func(ctx context.Context, election, value string) (store.Ballot, error) {
			ballot, err := st.Cast(ctx, election, value)
			if err != nil {
				return nil, err
			}
			b := &fakeBallot{Ballot: ballot}
			change(b)
			return b, nil
		},
	}
}

// fakeBallot is a ballot with some of its methods replaced.
type fakeBallot struct {
	store.Ballot
	token       uint64 // zero if it is not replaced
	lease       *store.Lease
	onLease     func() // called before the lease is returned
	lost        chan struct{}
	frozen      chan struct{} // while it is open, Lost does not return
	wait        func(ctx context.Context) error
	acknowledge func(ctx context.Context, value string) (store.Leader, error)
	withdraw    func(ctx context.Context) error
}

func (b *fakeBallot) Token() uint64 {
	if b.token == 0 {
		return b.Ballot.Token()
	}
	return b.token
}

func (b *fakeBallot) Lease() *store.Lease {
	if b.onLease != nil {
		b.onLease()
	}
	if b.lease == nil {
		return b.Ballot.Lease()
	}
	return b.lease
}

func (b *fakeBallot) Lost() <-chan struct{} {
	if b.frozen != nil {
		<-b.frozen
	}
	if b.lost == nil {
		return b.Ballot.Lost()
	}
	return b.lost
}

func (b *fakeBallot) Err() error {
	if b.lost == nil {
		return b.Ballot.Err()
	}
	select {
	case <-b.lost:
		return store.ErrLost
	default:
		return nil
	}
}

func (b *fakeBallot) Wait(ctx context.Context) error {
	if b.wait == nil {
		return b.Ballot.Wait(ctx)
	}
	return b.wait(ctx)
}

func (b *fakeBallot) Acknowledge(ctx context.Context, value string) (store.Leader, error) {
	if b.acknowledge == nil {
		return b.Ballot.Acknowledge(ctx, value)
	}
	return b.acknowledge(ctx, value)
}

func (b *fakeBallot) Withdraw(ctx context.Context) error {
	if b.withdraw == nil {
		return b.Ballot.Withdraw(ctx)
	}
	return b.withdraw(ctx)
}
