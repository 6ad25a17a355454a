package conformance_test

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/store"
)

// ballots is a store whose ballots are wrapped.
type ballots struct {
	store.Store
	wrap func(s *ballots, b store.Ballot) store.Ballot
}

func (s *ballots) Campaign(ctx context.Context, election, value string) (store.Ballot, error) {
	b, err := s.Store.Campaign(context.WithValue(ctx, electionKey{}, election), election, value)
	if err != nil {
		return nil, err
	}
	return s.wrap(s, &named{b, election, value}), nil
}

type electionKey struct{}

// named is a ballot that knows what it was cast for.
type named struct {
	store.Ballot
	election, value string
}

// endless gives a ballot a lease that holds for ever.
func endless(_ *ballots, b store.Ballot) store.Ballot {
	lease := store.NewLease()
	lease.Renew(store.Now(), 1000*time.Hour)
	return &leased{b, lease}
}

type leased struct {
	store.Ballot
	lease *store.Lease
}

func (b *leased) Lease() *store.Lease { return b.lease }

type renumbered struct {
	store.Ballot
	token uint64
}

func (b *renumbered) Token() uint64 { return b.token }

// careless goes on campaigning when its caller has given up, and forgets the ballot.
type careless struct {
	store.Store
	world *world
}

func (s *careless) Campaign(ctx context.Context, election, value string) (store.Ballot, error) {
	type outcome struct {
		ballot store.Ballot
		err    error
	}
	cast := make(chan outcome, 1)
	s.world.left.Go(func() {
		b, err := s.Store.Campaign(context.Background(), election, value)
		cast <- outcome{b, err}
	})
	select {
	case o := <-cast:
		return o.ballot, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// hasty acknowledges as soon as a ballot is first.
func hasty(_ *ballots, b store.Ballot) store.Ballot { return &eager{b.(*named)} }

type eager struct{ *named }

func (b *eager) Wait(ctx context.Context) error {
	if err := b.named.Wait(ctx); err != nil {
		return err
	}
	_, err := b.Acknowledge(ctx, b.value)
	return err
}

// yields makes every second ballot that had to wait go to the back of the queue, once, when its turn comes.
func yields(w *world) func(*ballots, store.Ballot) store.Ballot {
	var turn atomic.Int64
	return func(s *ballots, b store.Ballot) store.Ballot {
		if turn.Add(1)%2 == 1 {
			return b
		}
		y := &yielding{store: s.Store, ballot: b.(*named), lost: make(chan struct{})}
		list, err := s.Ballots(context.Background(), y.ballot.election)
		y.yielded = err != nil || len(list) < 2
		w.left.Go(func() { y.watch(w.over) })
		return y
	}
}

// yielding is the ballot that stands at present.
type yielding struct {
	store   store.Store
	lost    chan struct{}
	mu      sync.Mutex
	ballot  *named // guarded by mu
	yielded bool   // guarded by mu: it has, or never had to wait
}

func (y *yielding) now() *named {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.ballot
}

func (y *yielding) watch(over <-chan struct{}) {
	for {
		b := y.now()
		select {
		case <-b.Lost():
			if y.now() == b {
				close(y.lost)
				return
			}
		case <-over:
			return
		}
	}
}

func (y *yielding) Wait(ctx context.Context) error {
	for {
		if err := y.now().Wait(ctx); err != nil {
			return err
		}
		list, err := y.store.Ballots(ctx, y.now().election)
		if err != nil {
			return err
		}
		y.mu.Lock()
		stays := y.yielded || len(list) < 2
		y.yielded = true
		y.mu.Unlock()
		if stays {
			return nil
		}
		old := y.now()
		b, err := y.store.Campaign(ctx, old.election, old.value)
		if err != nil {
			return err
		}
		y.mu.Lock()
		y.ballot = &named{b, old.election, old.value}
		y.mu.Unlock()
		if err := old.Withdraw(ctx); err != nil {
			return err
		}
	}
}

func (y *yielding) Token() uint64         { return y.now().Token() }
func (y *yielding) Lease() *store.Lease   { return y.now().Lease() }
func (y *yielding) Lost() <-chan struct{} { return y.lost }
func (y *yielding) Err() error            { return y.now().Err() }
func (y *yielding) Acknowledge(ctx context.Context, value string) (store.Leader, error) {
	return y.now().Acknowledge(ctx, value)
}
func (y *yielding) Withdraw(ctx context.Context) error { return y.now().Withdraw(ctx) }

// curious lists the ballots at each change of leader while it waits.
func curious(w *world) func(*ballots, store.Ballot) store.Ballot {
	return func(s *ballots, b store.Ballot) store.Ballot { return &nosy{b.(*named), s.Store, w} }
}

type nosy struct {
	*named
	store store.Store
	world *world
}

func (b *nosy) Wait(ctx context.Context) error {
	looking, stop := context.WithCancel(ctx)
	defer stop()
	var looker sync.WaitGroup
	defer looker.Wait()
	defer stop()
	looker.Go(func() {
		var prev *store.Leader
		for looking.Err() == nil {
			l, err := b.store.Leader(looking, b.election, prev)
			if err != nil {
				return
			}
			prev = &l
			_, _ = b.store.Ballots(looking, b.election)
		}
	})
	return b.named.Wait(ctx)
}
