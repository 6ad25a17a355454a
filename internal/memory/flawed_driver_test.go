package memory

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// flawed is a driver that violates one invariant.
type flawed struct {
	*driver
	flaw string

	mu     sync.Mutex
	back   map[string]engine.State // the first state of each key; guarded by mu
	before uint64                  // the session opened last; guarded by mu
	shared map[string]*sharedRead  // by key; guarded by mu
	locked chan struct{}           // has room for the call that holds the driver
	held   string                  // the key of an entry that Enter has not returned yet; guarded by mu
}

// flawedSession is a session of it.
type flawedSession struct {
	*driverSession
	flawed *flawed
}

func (f *flawed) Open(ctx context.Context) (engine.Session, engine.Proof, error) {
	s, proof, err := f.driver.Open(ctx)
	if err != nil {
		return nil, proof, err
	}
	switch f.flaw {
	case "proves for a TTL":
		proof.Valid = driverTTL
	case "proves the session from the answer":
		proof.Sent = store.Now()
	case "ends the session before":
		f.mu.Lock()
		f.service.drop(f.before)
		f.before = s.(*driverSession).id
		f.mu.Unlock()
	case "ends sessions early":
		session := s.(*driverSession)
		time.AfterFunc(driverTTL*3/4, func() { f.service.drop(session.id) })
	}
	return flawedSession{s.(*driverSession), f}, proof, nil
}

// told changes what is told.
func (f *flawed) told(key string, tell engine.Tell) engine.Tell {
	switch f.flaw {
	case "goes back":
		return func(n engine.News) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if n.State != nil {
				if _, ok := f.back[key]; !ok && n.State.Leader.Revision > 0 {
					f.back[key] = *n.State
				}
				defer func(first engine.State) { tell(engine.News{State: &first}) }(f.back[key])
			}
			tell(n)
		}
	case "counts from the answer":
		return func(n engine.News) {
			if !n.AsOf.IsZero() {
				n.AsOf = time.Now()
			}
			tell(n)
		}
	case "tells two things at once":
		return func(n engine.News) {
			var both sync.WaitGroup
			both.Go(func() { tell(n) })
			both.Go(func() { tell(n) })
			both.Wait()
		}
	case "confirms before it tells":
		return func(n engine.News) {
			if n.State == nil {
				tell(n)
				return
			}
			time.AfterFunc(driverTTL/30, func() { f.mu.Lock(); defer f.mu.Unlock(); tell(n) })
		}
	case "tells an old time, and never the present":
		return func(n engine.News) {
			if !n.AsOf.IsZero() && n.State == nil {
				return
			}
			if n.State != nil {
				n.AsOf = time.Now().Add(-driverTTL)
			}
			tell(n)
		}
	case "does not tell all changes":
		first := true
		return func(n engine.News) {
			if n.State == nil || first {
				first = false
				tell(n)
			}
		}
	case "has no order":
		late := true
		return func(n engine.News) {
			if n.State == nil || n.State.Token > 0 {
				tell(n)
				return
			}
			f.mu.Lock()
			d := time.Duration(0)
			if late = len(f.back)%2 == 0; late {
				d = driverTTL / 100
			}
			f.back[key] = *n.State
			f.mu.Unlock()
			time.AfterFunc(d, func() { tell(n) })
		}
	case "forgets the watches of a broken connection":
		return func(n engine.News) {
			if !n.Over {
				tell(n)
			}
		}
	case "does not tell of marks":
		return func(n engine.News) {
			if n.State != nil {
				s := *n.State
				s.Resign, n.State = false, &s
			}
			tell(n)
		}
	case "says that all are first":
		return func(n engine.News) {
			if n.State != nil {
				s := *n.State
				s.First, n.State = s.Token != 0, &s
			}
			tell(n)
		}
	case "says that a session which has led is first":
		return func(n engine.News) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if n.State != nil {
				s := *n.State
				if s.First {
					f.back[s.Session] = s
				}
				s.First, n.State = f.back[s.Session].First, &s
			}
			tell(n)
		}
	case "says of what has gone that it is first":
		return func(n engine.News) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if n.State != nil {
				s := *n.State
				if s.First {
					f.back[key] = s
				}
				s.First, n.State = f.back[key].First, &s
			}
			tell(n)
		}
	case "reads what it has read before":
		return func(n engine.News) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if n.State != nil {
				if _, ok := f.back[key]; !ok {
					f.back[key] = *n.State
				}
				s := f.back[key]
				n.State = &s
			}
			tell(n)
		}
	}
	return tell
}

func (f *flawed) WatchEntry(ctx context.Context, key string, tell engine.Tell) (engine.Watch, error) {
	return f.watch(key, tell, func(tell engine.Tell) (engine.Watch, error) { return f.driver.WatchEntry(ctx, key, tell) })
}

func (f *flawed) WatchLeader(ctx context.Context, election string, tell engine.Tell) (engine.Watch, error) {
	return f.watch(election, tell, func(tell engine.Tell) (engine.Watch, error) { return f.driver.WatchLeader(ctx, election, tell) })
}

// sharedRead is a read that is under way.
type sharedRead struct {
	told []engine.News // what it has told
	done chan struct{} // closed when it has returned
}

// watch begins to watch, as begin does.
func (f *flawed) watch(key string, tell engine.Tell, begin func(engine.Tell) (engine.Watch, error)) (engine.Watch, error) {
	switch f.flaw {
	case "holds a lock during a request":
		f.locked <- struct{}{}
		defer time.AfterFunc(1, func() { <-f.locked }) // when it is known that the call has returned
	case "shares a read that is under way":
		f.mu.Lock()
		under := f.shared[key]
		if under == nil {
			f.shared[key] = &sharedRead{done: make(chan struct{})}
		}
		f.mu.Unlock()
		if under != nil {
			<-under.done
			for _, n := range under.told {
				tell(n)
			}
			return engine.Watch{Stop: func() {}}, nil
		}
		under = f.shared[key]
		defer func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			delete(f.shared, key)
			close(under.done)
		}()
		reading := true
		defer func() { reading = false }()
		return begin(func(n engine.News) {
			if reading {
				under.told = append(under.told, n)
			}
			tell(n)
		})
	}
	return begin(f.told(key, tell))
}

func (s flawedSession) Keep(ctx context.Context, renewed func(engine.Proof)) error {
	if s.flawed.flaw == "ends a session when its renewals do" {
		defer func() {
			time.AfterFunc(driverTTL/4, func() { s.flawed.service.drop(s.id) })
		}()
	}
	return s.driverSession.Keep(ctx, func(proof engine.Proof) {
		switch s.flawed.flaw {
		case "proves a renewal from the answer":
			proof.Sent = store.Now()
		case "does not count its connections":
			proof.Connection = 1
		}
		renewed(proof)
	})
}

func (s flawedSession) Enter(ctx context.Context, election string, n engine.Nonce, value string) (engine.Entry, error) {
	switch s.flawed.flaw {
	case "enters twice":
		n.Name += rand.Text()
	case "shows an entry after others with higher tokens":
		return s.enterLate(ctx, election, n, value)
	case "looks ahead before it enters":
		return s.enterBlind(ctx, election, n, value)
	}
	e, err := s.driverSession.Enter(ctx, election, n, value)
	switch s.flawed.flaw {
	case "has falling tokens":
		e.Token = 1<<40 - e.Token
	case "enters what is void":
		if err != nil {
			n.Turn += 1 << 32
			time.AfterFunc(driverTTL/100, func() {
				s.flawed.service.locked(func() { _, _ = s.flawed.service.enter(s.id, n, election, value) })
			})
		}
	}
	return e, err
}

// enterLate takes a token first, and makes the entry visible later. Of entries that are made at the same moment, each
// session holds the first one back until the others have been answered.
func (s flawedSession) enterLate(ctx context.Context, election string, n engine.Nonce, value string) (engine.Entry, error) {
	e, err := s.driverSession.Enter(ctx, election, n, value)
	if err != nil {
		return e, err
	}
	s.flawed.mu.Lock()
	first := s.flawed.held == ""
	if first {
		s.flawed.held = e.Key
	}
	if e.Place.Nearest == s.flawed.held {
		e.Place = engine.Place{}
	}
	s.flawed.mu.Unlock()
	if first {
		time.Sleep(driverTTL / 1000) // in virtual time
		s.flawed.mu.Lock()
		s.flawed.held = ""
		s.flawed.mu.Unlock()
	}
	return e, nil
}

// standing returns the ballots of an election.
func (f *flawed) standing(election string) (list []store.Standing) {
	f.service.locked(func() { list = f.service.standing(election) })
	return list
}

// enterBlind reads what is ahead before it makes the entry. Of entries that are made at the same moment, all read first.
func (s flawedSession) enterBlind(ctx context.Context, election string, n engine.Nonce, value string) (engine.Entry, error) {
	list := s.flawed.standing(election)
	time.Sleep(driverTTL / 1000) // in virtual time
	e, err := s.driverSession.Enter(ctx, election, n, value)
	e.Place = engine.Place{More: len(list) > 1}
	if len(list) > 0 {
		e.Place.Nearest = EntryKey(election, list[len(list)-1].Token)
	}
	return e, err
}

func (s flawedSession) Acknowledge(ctx context.Context, e engine.Entry, value string) (uint64, error) {
	revision, err := s.driverSession.Acknowledge(ctx, e, value)
	if s.flawed.flaw == "acknowledges what has gone" {
		return revision, nil
	}
	return revision, err
}

func (s flawedSession) Remove(ctx context.Context, r engine.Removal) error {
	if s.flawed.flaw == "removes others" {
		s.flawed.service.Clear(r.Election)
	}
	return s.driverSession.Remove(ctx, r)
}

func (s flawedSession) End(ctx context.Context, led []engine.Removal) error {
	if s.flawed.flaw == "does not end sessions" {
		return nil
	}
	return s.driverSession.End(ctx, led)
}

func (f *flawed) First(ctx context.Context, election string) (engine.State, error) {
	state, err := f.driver.First(ctx, election)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch f.flaw {
	case "says what was first":
		if old, ok := f.back[election]; ok && old.Token != 0 {
			return old, err
		}
		f.back[election] = state
	case "says what is last":
		if list := f.standing(election); len(list) > 0 {
			state.Token = list[len(list)-1].Token
		}
	case "says no nonce of the first":
		state.Nonce = ""
	}
	return state, err
}

func (f *flawed) Clear(ctx context.Context, election string) error {
	switch f.flaw {
	case "clears nothing":
		return nil
	case "clears what is below":
		f.service.Clear(election + "/below")
	}
	return f.driver.Clear(ctx, election)
}

func (f *flawed) Elections(ctx context.Context) ([]string, error) {
	if f.flaw == "lists no elections" {
		return nil, nil
	}
	return f.driver.Elections(ctx)
}

// driverOf returns the driver below a flawed one.
func driverOf(d engine.Driver) *driver {
	switch d := d.(type) {
	case *driver:
		return d
	case *flawed:
		return d.driver
	case flawedPeers:
		return d.driver
	}
	return d.(peersDriver).driver
}

// flawedPeers is one that expires a session whatever its mark is, or never, and so with what it proves.
type flawedPeers struct {
	*flawed
	engine.Peers
}

func (f flawedPeers) Expire(ctx context.Context, session, mark string) error {
	p, err := f.Peer(ctx, session)
	switch {
	case err != nil:
		return err
	case f.flaw == "expires nothing" && p.Mark == mark:
		return nil
	case f.flaw == "expires nothing":
		return errMark
	case f.flaw != "expires what was renewed":
		return f.Peers.Expire(ctx, session, mark)
	}
	return f.Peers.Expire(ctx, session, p.Mark)
}

func (f flawedPeers) Prove(ctx context.Context, session, mark string, age time.Duration) error {
	p, err := f.Peer(ctx, session)
	switch {
	case err != nil:
		return err
	case f.flaw == "proves nothing":
		return nil
	case f.flaw == "proves the age of any mark":
		mark = p.Mark
	case f.flaw == "proves what is shorter":
		d := f.Peers.(peersDriver)
		d.service.mu.Lock()
		defer d.service.mu.Unlock()
		if mark == p.Mark {
			sess := d.service.named(session)
			sess.proved = proved{sess.mark, age}
		}
		return nil
	}
	return f.Peers.Prove(ctx, session, mark, age)
}

// spoil makes a driver flawed.
func spoil(flaw string) func(engine.Driver) engine.Driver {
	return func(d engine.Driver) engine.Driver {
		f := &flawed{
			flaw: flaw, back: map[string]engine.State{}, shared: map[string]*sharedRead{}, locked: make(chan struct{}, 1),
		}
		switch peers := d.(type) {
		case peersDriver:
			f.driver = peers.driver
			return flawedPeers{f, peers}
		default:
			f.driver = d.(*driver)
		}
		return f
	}
}
