package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
)

// opening is a session that is wanted.
type opening struct {
	done    chan struct{} // closed by the keeper when there is an outcome
	session *session      // written before done is closed, as is err
	err     error         // final
	last    error         // guarded by the engine's mu: why the last attempt failed
}

// session is a session of the driver with the ballots that were cast in it.
type session struct {
	engine *Engine
	driver Session
	id     string // constant: driver.ID()
	lease  *store.Lease
	ctx    context.Context // ends in finish, with the reason: requests for the session's ballots end with it
	cancel context.CancelCauseFunc
	once   sync.Once // finish

	over    bool                 // guarded by the engine's mu, as are all below: finish has begun
	left    error                // why it was given up, if over: the service may keep it. nil: it has ended there
	ballots map[*ballot]struct{} // those that stand, or whose end is not known; see install
	nonces  map[string]struct{}  // of casts, orphans and ballots; see install
	refused map[string]error     // why entries can't be removed; see install
	pending int                  // casts, orphans and removals under way
	drained chan struct{}        // nil, or closed when pending gets to 0
}

// openSession returns the session, and waits for one if there is none.
func (e *Engine) openSession(ctx context.Context) (*session, error) {
	e.mu.Lock()
	if e.ended || e.current != nil {
		defer e.mu.Unlock()
		if e.ended {
			return nil, store.ErrClosed
		}
		return e.current, nil
	}
	if e.opening == nil {
		e.opening = &opening{done: make(chan struct{})}
	}
	if !e.keeping {
		e.keeping = true
		e.keeper.Go(e.keep)
	}
	o := e.opening
	e.mu.Unlock()
	select {
	case <-o.done:
		return o.session, o.err
	case <-ctx.Done():
		e.mu.Lock()
		defer e.mu.Unlock()
		return nil, adapter.Ended(ctx, nil, o.last)
	}
}

// keep is the keeper: it opens a session, keeps it and ends it, and then the next, for as long as one is wanted.
func (e *Engine) keep() {
	for {
		e.mu.Lock()
		o := e.opening
		e.keeping = o != nil
		e.mu.Unlock()
		if o == nil {
			return
		}
		if s := e.open(o); s != nil {
			s.keep()
		}
	}
}

// open opens a session, or returns nil if that can't succeed. Callers that wait get a final error at once, and the next
// Campaign tries again. A session that opens while the store is being closed is finished before anything is cast in it.
func (e *Engine) open(o *opening) *session {
	for wait := (adapter.Retries{}); ; wait.Pause(e.life.Calls) {
		d, proof, err := e.driver.Open(e.life.Calls)
		if err == nil {
			s := e.newSession(d, proof)
			if e.install(o, s) {
				return s
			}
			s.finish(adapter.ErrClosed, store.ErrClosed)
			return s
		}
		if e.life.Calls.Err() != nil {
			err = store.ErrClosed
		}
		if e.failed(o, err) {
			return nil
		}
	}
}

func (e *Engine) newSession(d Session, proof Proof) *session {
	s := &session{
		engine: e, driver: d, id: d.ID(), lease: store.NewLease(),
		ballots: map[*ballot]struct{}{}, nonces: map[string]struct{}{}, refused: map[string]error{},
	}
	s.ctx, s.cancel = context.WithCancelCause(e.life.Background)
	s.renewed(proof)
	return s
}

// install makes the session the current one, unless the store has been closed. The session of a caller's connection
// might be the one that was given up before. Its entries are being removed, and known to both.
func (e *Engine) install(o *opening, s *session) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.last != nil && e.last.id == s.id {
		s.ballots, s.nonces, s.refused = e.last.ballots, e.last.nonces, e.last.refused
	}
	e.opening, e.last = nil, s
	if e.ended {
		o.err = store.ErrClosed
	} else {
		e.current, o.session = s, s
	}
	close(o.done)
	return o.session != nil
}

// failed notes why an attempt to open a session failed, and reports whether the error is final.
func (e *Engine) failed(o *opening, err error) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	o.last = err
	if retriable(err) {
		return false
	}
	o.err, e.opening = err, nil
	close(o.done)
	return true
}

func (s *session) renewed(p Proof) { s.lease.Renew(p.Sent, p.Valid) }

// keep renews the session until it is over, and ends it if the service might still keep it. If a leader's work goes on,
// the end waits for it, and the next session is opened meanwhile: work that does not stop delays no other election. The
// next session is also opened while the entries of a caller's connection are removed one by one.
func (s *session) keep() {
	err := s.driver.Keep(s.ctx, s.renewed)
	if err == nil && s.ctx.Err() == nil {
		s.ended()
	} else {
		s.giveUp(err) // if ctx has ended, this waits until all ballots have been told
	}
	if _, left := s.state(); left == nil {
		return
	}
	work := s.work()
	if len(work) == 0 && s.driver.Owned() {
		s.end()
		return
	}
	s.engine.keeper.Go(func() {
		if !s.driver.Owned() {
			s.discard(work)
		}
		s.await(work)
		if s.driver.Owned() || s.emptied() {
			s.end()
		}
	})
}

// state returns whether the session is over, and why the service might still keep it.
func (s *session) state() (over bool, left error) {
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	return s.over, s.left
}

// ended is called when the service is known to have ended the session.
func (s *session) ended() { s.finish(adapter.ErrSessionEnded, nil) }

// giveUp ends a session that the service might still keep.
func (s *session) giveUp(why error) { s.finish(fmt.Errorf("%w: %w", store.ErrLost, why), why) }

// finish ends the session for this process, once: later calls wait for the first. First no ballot is added any more and
// those there are learn why they are lost, then the lease ends, and then the keeper is told, which lets the session go.
func (s *session) finish(why, left error) {
	s.once.Do(func() {
		e := s.engine
		e.mu.Lock()
		s.over, s.left = true, left
		if e.current == s {
			e.current = nil
		}
		e.mu.Unlock()
		for _, b := range s.own() {
			b.lose(why)
		}
		s.lease.End()
		s.cancel(why)
	})
}

// endLimit bounds the requests that end a session.
const endLimit = 3 * time.Second

// emptied removes each entry of a caller's connection, which stays, and reports whether all are known to be gone.
func (s *session) emptied() bool {
	s.discard(nil)
	if s.drain() {
		return true
	}
	e := s.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stand = e.life.Fail("close", "", fmt.Errorf("%w: ballots stand until the session of the caller's connection ends",
		store.ErrUnavailable))
	return false
}

// end lets the session go.
func (s *session) end() {
	e := s.engine
	var led []Removal
	for _, b := range s.own() {
		if r := b.removal(); r.Led {
			led = append(led, r)
		}
	}
	ctx, cancel := context.WithTimeout(e.life.Background, endLimit)
	defer cancel()
	switch err := s.driver.End(ctx, led); {
	case err != nil:
		e.settings.Logger.Warn("the end of the session is not confirmed; without renewals it ends by itself", "store", e.settings.Name, "error", err)
	case s.driver.Owned():
		e.mu.Lock()
		s.left = nil
		e.mu.Unlock()
	}
}

// own returns the ballots that were cast in the session.
func (s *session) own() []*ballot {
	s.engine.mu.Lock()
	ballots := slices.Collect(maps.Keys(s.ballots))
	s.engine.mu.Unlock()
	return slices.DeleteFunc(ballots, func(b *ballot) bool { return b.session != s })
}

// discard removes all entries but those that are spared, each by itself.
func (s *session) discard(spared []*ballot) {
	for _, b := range s.own() {
		if !slices.Contains(spared, b) {
			b.discard()
		}
	}
}

// work returns the ballots that a leader's work might depend on.
func (s *session) work() []*ballot {
	return slices.DeleteFunc(s.own(), func(b *ballot) bool { return !b.works() })
}

// await waits until the owners of these ballots have given them back, so that no other process leads while a leader's
// work still winds down. It waits for a TTL at most, since the service keeps the session no longer, and not after Close.
func (s *session) await(work []*ballot) {
	e := s.engine
	ctx, cancel := context.WithTimeout(e.life.Calls, e.settings.TTL)
	defer cancel()
	for _, b := range work {
		select {
		case <-b.back:
		case <-ctx.Done():
		}
	}
}

// drain waits until no cast, orphan or removal of the session is under way, and reports false if that takes longer than
// endLimit once the store is being closed.
func (s *session) drain() bool {
	e := s.engine
	e.mu.Lock()
	if s.pending == 0 {
		e.mu.Unlock()
		return true
	}
	drained := make(chan struct{})
	s.drained = drained
	e.mu.Unlock()
	select {
	case <-drained:
		return true
	case <-e.life.Calls.Done():
	}
	timer := time.NewTimer(endLimit)
	defer timer.Stop()
	select {
	case <-drained:
		return true
	case <-timer.C:
		return false
	}
}

// begin counts a cast, an orphan or a removal; done is called at its end. The caller holds the engine's mu.
func (s *session) begin(nonce string) {
	s.pending++
	s.nonces[nonce] = struct{}{}
}

func (s *session) done() {
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	if s.pending--; s.pending == 0 && s.drained != nil {
		close(s.drained)
		s.drained = nil
	}
}

// forget removes what is known of a ballot, or of a cast, whose entry is known to be gone.
func (s *session) forget(b *ballot, nonce string) {
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	delete(s.ballots, b)
	delete(s.nonces, nonce)
}

// refuse notes why an entry can't be removed, or that it could be.
func (s *session) refuse(what string, why error) {
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	delete(s.refused, what)
	if why != nil {
		s.refused[what] = why
	}
}

// stands returns an error that names the entries which could not be removed, if there are any and the service has not
// ended the session.
func (s *session) stands() (err error) {
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	if s.left == nil {
		return nil
	}
	for _, what := range slices.Sorted(maps.Keys(s.refused)) {
		err = errors.Join(err, s.engine.life.Fail("close", "",
			fmt.Errorf("ballot %q stands until the session of the caller's connection ends: %w", what, s.refused[what])))
	}
	return err
}

// takes reports whether the session is over and takes all its entries along.
func (s *session) takes() bool {
	over, left := s.state()
	return over && (left == nil || s.driver.Owned())
}

// clean removes an entry of the session in the background, since those behind it would never lead: again and again,
// until it or the session is gone. If the service refuses that for good, the session is given up, and takes it along.
func (s *session) clean(what string, remove func(context.Context) error) {
	ctx := s.ctx
	if !s.driver.Owned() {
		ctx = s.engine.life.Background // the entries outlast finish
	}
	var denied denials
	for wait := (adapter.Retries{}); !s.takes() && ctx.Err() == nil; wait.Pause(ctx) {
		err := remove(ctx)
		switch {
		case err == nil:
			s.refuse(what, nil)
			return
		case errors.Is(err, ErrOver):
			s.ended()
			return
		case ctx.Err() != nil || s.takes() || adapter.Uncertain(err): // finish may be about to end ctx
			continue
		case denied.bears(err, s.engine.settings.DenialTimeout):
			continue
		}
		log := s.engine.settings.Logger.With("store", s.engine.settings.Name, "entry", what, "error", err)
		if !s.driver.Owned() {
			log.Warn("a ballot can't be removed, and stands until the session of the caller's connection ends")
			s.refuse(what, err)
			return
		}
		log.Warn("a ballot can't be removed, so the session ends")
		s.giveUp(fmt.Errorf("a ballot could not be removed: %v", err)) // in words: the other ballots were not refused
		return
	}
}
