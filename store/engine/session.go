package engine

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
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

	reached     atomic.Bool   // a renewal has come while the lease held: it is not that of the proof it began with
	connection  atomic.Uint64 // of the last proof
	reconnected chan struct{} // has room for one: a proof came on another connection
	rota        rota          // of the elections in which it has cast

	finished    bool               // guarded by the engine's mu, as are all below: finish has begun
	unconfirmed error              // why a finished session was given up: the service might keep it. nil: it has ended there
	claims      map[string]*claim  // by nonce
	records     map[string]*record // by election: those in which it has cast
	unclaimed   list.List          // of *record: those without a claim, first that whose last claim was settled first
}

// openSession returns the session, and waits for one if there is none.
func (e *Engine) openSession(ctx context.Context) (*session, error) {
	e.mu.Lock()
	if e.closing || e.current != nil {
		defer e.mu.Unlock()
		if e.closing {
			return nil, store.ErrClosed
		}
		return e.current, nil
	}
	if e.opening == nil {
		e.opening = &opening{done: make(chan struct{})}
	}
	if !e.keeping {
		e.keeping = true
		e.keeper.Go(e.keepSessions)
	}
	o := e.opening
	e.mu.Unlock()
	select {
	case <-o.done:
		return o.session, o.err
	case <-ctx.Done():
		e.mu.Lock()
		defer e.mu.Unlock()
		return nil, adapter.Ended(ctx, nil, cmp.Or(o.last, e.gate.err()))
	}
}

// keepSessions is the keeper: it opens a session, keeps it and ends it, and then the next, for as long as one is wanted.
func (e *Engine) keepSessions() {
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

// open opens a session, or returns nil if the service refuses one for good. Callers that wait get a final error at once,
// and the next Cast tries again. A session that opens while the store is being closed is finished before anything is cast
// in it.
func (e *Engine) open(o *opening) *session {
	for wait := (adapter.Retries{}); ; wait.Pause(e.life.Calls) {
		var d Session
		var proof Proof
		err := e.gate.send(e.life.Calls, opens, func() (err error) {
			d, proof, err = e.driver.Open(e.life.Calls)
			return err
		})
		if err == nil {
			s := e.newSession(d, proof)
			s.handOver()
			if !e.install(o, s) {
				s.finish(adapter.ErrClosed, store.ErrClosed)
			}
			return s
		}
		if e.life.Calls.Err() != nil {
			err = store.ErrClosed
		}
		if e.openFailed(o, err) {
			return nil
		}
	}
}

func (e *Engine) newSession(d Session, proof Proof) *session {
	s := &session{
		engine: e, driver: d, id: d.ID(), lease: store.NewLease(), reconnected: make(chan struct{}, 1),
		claims: map[string]*claim{}, records: map[string]*record{},
	}
	s.ctx, s.cancel = context.WithCancelCause(e.life.Background)
	s.connection.Store(proof.Connection)
	s.renewed(proof)
	return s
}

// install makes the session the current one, unless the store has been closed.
func (e *Engine) install(o *opening, s *session) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.opening = nil
	if e.closing {
		o.err = store.ErrClosed
	} else {
		e.current, o.session = s, s
	}
	close(o.done)
	return o.session != nil
}

// openFailed records why an attempt to open a session failed, and reports whether the error is final.
func (e *Engine) openFailed(o *opening, err error) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	o.last = err
	if f := (failFast{}); adapter.Uncertain(err) && !errors.As(err, &f) {
		return false
	}
	o.err, e.opening = err, nil
	close(o.done)
	return true
}

// renewed takes a proof. One that comes while the lease holds shows that renewals reach it.
func (s *session) renewed(p Proof) {
	_, holds := s.lease.Span()
	s.reached.Store(holds)
	s.lease.Renew(p.Sent, p.Valid)
	s.engine.gate.answer()
	s.connected(p.Connection)
	if tell, latency := s.engine.settings.Renewed, p.Sent.Since(time.Now()); tell != nil && !p.Sent.Time().IsZero() { // no renewal was sent
		s.engine.program.notify(s.engine.settings.Name, "the function Renewed", func() { tell(latency) })
	}
}

// keep renews the session until it is finished, and ends it if the service might still keep it. The end waits for a leader's
// work. The keeper opens the next session meanwhile, so that work which does not stop delays no other election.
func (s *session) keep() {
	var audit sync.WaitGroup
	audit.Go(s.audit)
	err := s.driver.Keep(s.ctx, s.renewed)
	if err == nil && s.ctx.Err() == nil {
		s.ended()
	} else {
		s.giveUp(err) // if ctx has ended, this waits until all ballots have been told
	}
	audit.Wait()
	if _, unconfirmed := s.state(); unconfirmed == nil {
		s.handBack()
		return
	}
	work := s.work()
	if len(work) == 0 {
		s.end()
		return
	}
	s.engine.keeper.Go(func() { s.await(work); s.end() })
}

// state reports whether the session is finished, and why the service might still keep it.
func (s *session) state() (finished bool, unconfirmed error) {
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	return s.finished, s.unconfirmed
}

// ended finishes a session that the service is known to have ended.
func (s *session) ended() { s.finish(adapter.ErrSessionEnded, nil) }

// giveUp finishes a session that the service might still keep. It reports whether the session was not finished before.
func (s *session) giveUp(why error) bool {
	return s.finish(fmt.Errorf("%w: %w", store.ErrLost, why), why)
}

// finish ends the session for this process, once: later calls wait for the first. From then on the session takes no
// ballot. Its ballots are lost first, with the reason, then the lease ends, and last ctx, so that the keeper lets the
// session go.
func (s *session) finish(why, unconfirmed error) (first bool) {
	s.once.Do(func() {
		first = true
		e := s.engine
		e.mu.Lock()
		s.finished, s.unconfirmed = true, unconfirmed
		if e.current == s {
			e.current = nil
		}
		e.mu.Unlock()
		for _, b := range s.ballots() {
			b.lose(why)
		}
		s.lease.End()
		s.cancel(why)
	})
	return first
}

// endLimit bounds the requests that end a session.
const endLimit = 3 * time.Second

// end lets the session go.
func (s *session) end() {
	defer s.handBack()
	e := s.engine
	var led []Removal
	for _, b := range s.ballots() {
		if r := b.removal(); r.Led {
			led = append(led, r)
		}
	}
	ctx, cancel := context.WithTimeout(e.life.Background, endLimit)
	defer cancel()
	switch err := s.driver.End(ctx, led); {
	case err != nil && e.gate.err() == nil: // otherwise that is no news
		e.program.log(slog.LevelWarn, "the end of the session is not confirmed; without renewals it ends by itself", "store", e.settings.Name, "error", err)
	case err == nil:
		e.mu.Lock()
		s.unconfirmed = nil
		e.mu.Unlock()
	}
}

// ballots returns those that were cast in the session and are not known to be gone.
func (s *session) ballots() (list []*ballot) {
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	for _, c := range s.claims {
		if c.ballot != nil {
			list = append(list, c.ballot)
		}
	}
	return list
}

// work returns the ballots that a leader's work might depend on.
func (s *session) work() []*ballot {
	return slices.DeleteFunc(s.ballots(), func(b *ballot) bool { return !b.works() })
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

// send sends a caller's request for an entry when the gate lets it through. It stops waiting when the session finishes: the
// entry goes with the session.
func (s *session) send(ctx context.Context, request func() error) error {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	return s.engine.gate.send(waiting, plain, request)
}
