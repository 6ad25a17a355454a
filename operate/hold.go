package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-leadership/leadership/store"
)

// Hold keeps an election from getting another leader: while an election is held, no candidate begins a term, and the
// present leader stays. It is for planned work, and no safety device: if the process of the hold loses its session,
// another candidate may lead.
//
// A hold is a ballot that never acknowledges. When the leader goes, the hold is first in line, and there is no leader.
// So every version of every candidate honours it, also those of other programs' recipes, and it ends with its process.
type Hold struct {
	ballot store.Ballot
	behind []store.Standing
	ahead  []store.Standing
	first  chan struct{} // closed when the ballot is first in line
	ended  chan struct{} // closed when the hold has ended
	done   chan struct{} // closed when the ballot has been given back, as far as the store answers
	cancel context.CancelFunc
	err    error // why it has ended; written before ended is closed
}

// mark begins the value of a hold's ballot. No address begins with a zero byte.
const mark = "\x00leadership hold\x00"

// Held reports whether a ballot with this value holds its election, and why.
func Held(value string) (reason string, held bool) {
	if reason, held = strings.CutPrefix(value, mark); !held {
		return "", false
	}
	return reason, true
}

// ErrReleased says that a hold was released: by Release, or by an operator who asked its ballot to resign.
var ErrReleased = errors.New("the hold was released")

// NewHold holds an election. It casts a ballot, asks those that wait ahead of it, but not the leader, to stand again
// behind it, and returns when only the leader is ahead of it, or after a TTL: some might hang. Behind says who was
// asked. The reason is shown to those who list the ballots, with who it was: "new disks, alice@db1".
//
// It refuses with ErrForeign if a ballot of another program's recipe waits ahead: that one takes no requests, and would
// lead; and with ErrHeld if the election is held already. The caller calls Release.
func NewHold(ctx context.Context, st store.Store, election, reason string) (*Hold, error) {
	ballot, err := st.Cast(ctx, election, mark+reason)
	if err != nil {
		return nil, err
	}
	h := &Hold{ballot: ballot, first: make(chan struct{}), ended: make(chan struct{}), done: make(chan struct{})}
	keeping, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	if err := h.settle(ctx, st, election); err != nil {
		cancel()
		return nil, errors.Join(err, h.withdraw(st))
	}
	span, ok := ballot.Lease().Span()
	if !ok {
		cancel()
		return nil, errors.Join(fmt.Errorf("%w: the session is not confirmed", store.ErrUnavailable), h.withdraw(st))
	}
	go h.keep(keeping, st, ballot.Lease().Lapsed(span))
	return h, nil
}

// settle makes those that wait step behind the hold.
func (h *Hold) settle(ctx context.Context, st store.Store, election string) error {
	q, err := Read(ctx, st, election)
	if err != nil {
		return err
	}
	at := q.find(h.ballot.Token())
	if at < 0 {
		return cmp.Or(h.ballot.Err(), store.ErrLost)
	}
	if at == 0 {
		return nil
	}
	if _, held := Held(q.Ballots[0].Value); held {
		return giveWay(election, q.Ballots[:1])
	}
	waiting := q.Ballots[1:at] // the first in line leads, or is taking over: it stays
	if err := giveWay(election, waiting); err != nil {
		return err
	}
	if h.behind, err = stepBehind(ctx, st, election, waiting); err != nil || len(waiting) == 0 {
		return err
	}
	if q, err = nextInLine(ctx, st, election, h.ballot.Token()); err == nil {
		h.ahead = q.Ballots[min(1, q.find(h.ballot.Token())):q.find(h.ballot.Token())]
	}
	return err
}

// keep waits until the hold ends, and gives its ballot back. Once the lease has lapsed, the ballot might be gone, and
// the store might learn of that late: so the hold ends then.
func (h *Hold) keep(ctx context.Context, st store.Store, lapsed <-chan struct{}) {
	defer close(h.done)
	waiting, stop := context.WithCancel(ctx)
	waited := make(chan error, 1)
	go func() { waited <- h.ballot.Wait(waiting) }()
	select {
	case err := <-waited:
		if err == nil {
			close(h.first)
			select {
			case <-h.ballot.Lost():
			case <-lapsed:
			case <-h.ballot.ResignationRequested():
			case <-ctx.Done():
			}
		}
		stop()
	case <-lapsed:
		stop()
		<-waited
	}
	switch h.err = h.ballot.Err(); {
	case h.err != nil:
		close(h.ended)
	case isClosed(lapsed) && ctx.Err() == nil:
		h.err = fmt.Errorf("%w: the session was not renewed before its deadline", store.ErrLost)
		close(h.ended)
		_ = h.withdraw(st) // it may be gone, and the hold has ended
	default: // it was released
		h.err = cmp.Or(h.withdraw(st), ErrReleased)
		close(h.ended)
	}
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func (h *Hold) withdraw(st store.Store) error {
	ctx, cancel := context.WithTimeout(context.Background(), st.TTL())
	defer cancel()
	return h.ballot.Withdraw(ctx)
}

// Token is the token of the hold's ballot.
func (h *Hold) Token() uint64 { return h.ballot.Token() }

// Behind returns the ballots whose owners were asked to stand again behind the hold.
func (h *Hold) Behind() []store.Standing { return h.behind }

// Ahead returns the ballots that were asked and had not gone when NewHold returned: their programs might hang. They
// would lead before the hold.
func (h *Hold) Ahead() []store.Standing { return h.ahead }

// First returns a channel that is closed when the leader has gone: the election has no leader from then on.
func (h *Hold) First() <-chan struct{} { return h.first }

// Ended returns a channel that is closed when the hold has ended: it was released, or its session is lost or was not
// renewed in time. Err says which.
func (h *Hold) Ended() <-chan struct{} { return h.ended }

// Err is nil while the hold goes on, and then ErrReleased, an error that matches store.ErrLost, or why the ballot of a
// hold that was released could not be given back.
func (h *Hold) Err() error {
	select {
	case <-h.ended:
		return h.err
	default:
		return nil
	}
}

// Release ends the hold, and returns when its ballot is known to be gone, or ctx has ended: then the store goes on. It
// returns nil if the hold has ended before.
func (h *Hold) Release(ctx context.Context) error {
	h.cancel()
	select {
	case <-h.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if errors.Is(h.err, ErrReleased) || errors.Is(h.err, store.ErrLost) {
		return nil
	}
	return h.err
}

// Release ends the holds of an election that other processes keep: it asks for their resignation, and waits until they
// have gone. It returns the reason of the first. ErrNotStanding: the election is not held.
func Release(ctx context.Context, st store.Store, election string) (reason string, err error) {
	asked := map[uint64]bool{}
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, st.TTL()/20) {
		list, err := st.Ballots(ctx, election)
		if err != nil {
			return reason, err
		}
		held := false
		for _, b := range list {
			why, is := Held(b.Value)
			if !is {
				continue
			}
			held = true
			if reason == "" {
				reason = why
			}
			if !asked[b.Token] {
				if err := st.RequestResignation(ctx, election, b.Token); err != nil {
					return reason, err
				}
				asked[b.Token] = true
			}
		}
		switch {
		case !held && len(asked) == 0:
			return "", fmt.Errorf("%w: election %q is not held", ErrNotStanding, election)
		case !held:
			return reason, nil
		}
		if err := sleep(ctx, pause); err != nil {
			return reason, err
		}
	}
}
