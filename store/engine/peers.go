package engine

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
)

// Peers is a driver of a service that ends no session by itself: the peers do. An entry stands only while its session
// does, and an acknowledgement only while its entry does, whatever the service still keeps of them.
//
// The engine expires a session only while one of its ballots waits just behind an entry of that session. A session that no
// ballot waits behind stays, and followers see its leader, until a ballot does, or the driver ends it.
type Peers interface {
	// Peer asks for a session of another process. ErrOver: it has ended.
	Peer(ctx context.Context, session string) (Peer, error)
	// Expire ends a session if it has this mark. nil: it has ended. ErrUnavailable that Answered marks: it has another mark
	// by now.
	Expire(ctx context.Context, session, mark string) error
	// Prove notes that a session has had this mark for the time age, if it still has the mark: see [Silence]. The longest
	// counts. The engine ignores the error.
	Prove(ctx context.Context, session, mark string, age time.Duration) error
}

// Peer is a session of another process.
type Peer struct {
	Mark string        // another one after each renewal, never an old one again
	TTL  time.Duration // of that session
	Age  time.Duration // for how long the session is proved to have had this mark, by Prove or otherwise; 0 if that is not known
}

// detector finds out that a session is not renewed any more, and expires it. There is one for each session that holds
// the nearest entry ahead of a ballot, and it lives as long as there is such a ballot.
//
// [Silence] is the rule. While this machine is suspended its monotonic clock stands still, and the session is expired
// later. A wall clock that was set does not count.
type detector struct {
	engine  *Engine
	session string
	ctx     context.Context // ends when no ballot needs it
	cancel  context.CancelFunc
	ballots map[*ballot]struct{} // guarded by the engine's mu

	silence Silence // only the goroutine uses it
}

// detect makes a detector look after a session for a ballot, in place of the session so far. An empty session means that
// there is none to look after. The ballot's goroutine calls detect.
func (e *Engine) detect(b *ballot, session string) {
	old := b.detects
	if old == session {
		return
	}
	b.detects = session
	e.mu.Lock()
	defer e.mu.Unlock()
	if d := e.detectors[old]; d != nil {
		delete(d.ballots, b)
		if len(d.ballots) == 0 {
			delete(e.detectors, old)
			d.cancel()
		}
	}
	if session == "" {
		return
	}
	d := e.detectors[session]
	if d == nil {
		d = &detector{engine: e, session: session, ballots: map[*ballot]struct{}{}}
		d.ctx, d.cancel = context.WithCancel(e.life.Calls)
		e.detectors[session] = d
		e.life.Go(d.run)
	}
	d.ballots[b] = struct{}{}
}

// run asks for the session, and expires it, until no ballot needs that.
func (d *detector) run() {
	for d.ctx.Err() == nil {
		next, over, err := d.look()
		switch {
		case d.ctx.Err() != nil:
			return
		case over:
			d.over()
		case err != nil && !adapter.Uncertain(err):
			d.engine.program.log(slog.LevelWarn, "can't find out whether the session of the ballot ahead is renewed",
				"store", d.engine.settings.Name, "session", d.session, "error", err)
		}
		adapter.PauseFor(d.ctx, next)
	}
}

// look returns when to look again, and whether the session is over.
func (d *detector) look() (next time.Duration, over bool, err error) {
	next = d.engine.settings.Pace
	var p Peer
	err = d.engine.gate.send(d.ctx, leads, func() (err error) {
		p, err = d.engine.peers.Peer(d.ctx, d.session)
		return err
	})
	if err != nil {
		return next, errors.Is(err, ErrOver), err
	}
	d.silence.Note(p.Mark, p.TTL-p.Age, time.Now()) // after the answer
	if d.silence.Left(time.Now()) > 0 {
		d.prove(p)
	}
	if left := d.silence.Left(time.Now()); left > 0 {
		return min(left, max(p.TTL/4, time.Millisecond)), false, nil
	}
	err = d.engine.gate.send(d.ctx, leads, func() error { return d.engine.peers.Expire(d.ctx, d.session, p.Mark) })
	return next, err == nil || errors.Is(err, ErrOver), err
}

// prove writes for how long the mark has stood, for processes that come later. A request without an answer does not hold
// up the end of the session.
func (d *detector) prove(p Peer) {
	left, ok := d.silence.Unproved(time.Now(), p.TTL/8)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(d.ctx, left)
	defer cancel()
	err := d.engine.gate.send(ctx, leads, func() error { return d.engine.peers.Prove(ctx, d.session, p.Mark, p.TTL-left) })
	if err == nil {
		d.silence.Proved(p.Mark, left)
	}
}

// over makes the ballots read anew what the session held.
func (d *detector) over() {
	d.engine.mu.Lock()
	ballots := make([]*ballot, 0, len(d.ballots))
	for b := range d.ballots {
		ballots = append(ballots, b)
	}
	d.engine.mu.Unlock()
	for _, b := range ballots {
		b.mu.Lock()
		if b.prev != nil && b.prev.session == d.session && !b.prev.gone {
			b.prev.stale = true
			ring(b.bell)
		}
		b.mu.Unlock()
	}
}
