package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// session implements engine.Session. It stands while its row does.
//
// A renewal sets the row's mark to another random number. A peer that reads a mark sends its request later than the
// holder has sent the renewal. The peer deletes the row when it has seen the same mark for the TTL by its own clock,
// and the row still has it. So no session ends before the TTL since the last renewal that was carried out was sent. No
// wall clock counts, and no lost connection: it proves nothing of the process.
type session struct {
	driver *driver
	id     string
	turn   atomic.Int64 // of the last acknowledgement

	ended bool // guarded by the driver's mu: Keep has returned

	mu    sync.Mutex
	sent  store.Instant          // guarded by mu, as are all below: just before the last renewal that was confirmed was sent
	epoch int64                  // the driver's at that time
	acks  map[int64]acknowledged // by the entry's token
}

// acknowledged is an acknowledgement that was confirmed.
type acknowledged struct {
	turn  int64
	value string
}

// mark returns a random number.
func mark() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return int64(binary.LittleEndian.Uint64(b[:]))
}

// Open implements engine.Driver. A session whose answer is lost has no entries. The next Open takes its name again:
// while the first commit waits for a standby that is away, the next one waits for the first and ends, and so they do
// not add up.
func (d *driver) Open(ctx context.Context) (engine.Session, engine.Proof, error) {
	if err := d.linked(ctx); err != nil {
		return nil, engine.Proof{}, err
	}
	d.mu.Lock()
	d.opening = cmp.Or(d.opening, rand.Text())
	s := &session{driver: d, id: d.opening, acks: map[int64]acknowledged{}}
	d.mu.Unlock()
	for installed := false; ; installed = true {
		losses, epoch := d.losses.Load(), d.latest()
		_, sent, err := query[nothing](ctx, d, d.renewals, d.call("open($1, $2, $3)"), s.id, d.config.TTL.Milliseconds(), mark())
		switch {
		case err == nil:
			d.mu.Lock()
			d.opening = ""
			d.mu.Unlock()
			s.sent, s.epoch = sent, epoch
			return s, s.proof(sent, losses), nil
		case !errors.Is(err, errNoSchema) || installed:
			return nil, engine.Proof{}, err
		}
		if err := d.install(ctx); err != nil {
			return nil, engine.Proof{}, err
		}
	}
}

func (s *session) proof(sent store.Instant, losses uint64) engine.Proof {
	c := s.driver.config
	return engine.Proof{Sent: sent, Valid: c.TTL - c.Grace, Connection: losses + 1}
}

// ID implements engine.Session.
func (s *session) ID() string { return s.id }

// Keep implements engine.Session. It renews the session every sixth of the TTL, whether or not the last answer has
// come: one that is lost costs no lease. Those that wait for a connection, or have been sent a moment ago, have a few
// places.
func (s *session) Keep(ctx context.Context, renewed func(engine.Proof)) error {
	d := s.driver
	defer func() {
		d.mu.Lock()
		s.ended = true
		d.mu.Unlock()
		d.forgetEntries(func(_ int64, e entered) bool { return e.session == s })
	}()
	all, stop := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer stop()
	ended := make(chan error, 1)
	ticker := time.NewTicker(d.config.TTL / 6)
	defer ticker.Stop()
	for {
		select {
		case d.renewals <- struct{}{}:
			tasks.Go(func() {
				err := s.renewFrom(all, renewed)
				if err == nil || adapter.Uncertain(err) {
					return
				}
				select {
				case ended <- err:
				default:
				}
			})
		default: // so many have no answer yet
		}
		select {
		case <-ticker.C:
		case <-d.reread: // from now on renewals count again
		case err := <-ended:
			if errors.Is(err, engine.ErrOver) {
				return nil
			}
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// renewRow is a row of the function renew: a session with its mark.
type renewRow struct {
	ID   string
	Mark int64
	TTL  int64
}

// renew renews the session once.
func (s *session) renew(ctx context.Context, renewed func(engine.Proof)) error {
	if err := occupy(ctx, s.driver.renewals); err != nil {
		return err
	}
	return s.renewFrom(ctx, renewed)
}

// renewFrom is renew for a caller that has taken a place, and notes the marks of the sessions that come after this one.
func (s *session) renewFrom(ctx context.Context, renewed func(engine.Proof)) error {
	d := s.driver
	losses, epoch := d.losses.Load(), d.latest()
	rows, sent, err := queryFrom[renewRow](ctx, d, d.renewals, d.call("renew($1, $2)"), s.id, mark())
	switch {
	case errors.Is(err, errNoSchema):
		return fmt.Errorf("%w: its schema was dropped", engine.ErrOver)
	case err != nil && sent.Time().IsZero(): // no connection was made: that might pass, as does a change of the password
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	case err != nil:
		return err
	case len(rows) == 0:
		return engine.ErrOver
	}
	failedOver := s.failedOver()
	if failedOver {
		if err := s.survives(ctx); err != nil {
			return err
		}
	}
	s.confirmed(epoch, sent)
	if d.allRead() {
		renewed(s.proof(sent, losses))
	}
	now := time.Now()
	for _, r := range rows {
		if r.ID != s.id {
			d.note(r.ID, r.Mark, r.TTL, now)
		}
	}
	if failedOver {
		d.life.Go(func() { s.acknowledgeAgain(ctx) }) // which holds up no renewal
	}
	d.life.Go(func() { d.writeProofs(ctx, d.config.TTL/5) }) // the mark of a session that is renewed does not stand for as long
	return nil
}

// End implements engine.Session. If no answer comes before ctx ends, peers end the session. What this process knows of
// the silence of others is then left for those that come later.
func (s *session) End(ctx context.Context, _ []engine.Removal) error {
	for retries := (adapter.Retries{}); ; retries.Pause(ctx) {
		_, err := read[nothing](ctx, s.driver, "close($1)", s.id)
		if err == nil {
			s.driver.writeProofs(ctx, time.Millisecond)
		}
		if !adapter.Uncertain(err) || ctx.Err() != nil {
			return err
		}
	}
}

// of sends a request of the session.
func of[T any](ctx context.Context, s *session, function string, args ...any) (row T, err error) {
	rows, err := ask[T](ctx, s.driver, function, append([]any{s.id}, args...)...)
	switch {
	case errors.Is(err, errNoSchema):
		return row, fmt.Errorf("%w: its schema was dropped", engine.ErrOver)
	case err != nil:
		return row, err
	case len(rows) != 1:
		return row, fmt.Errorf("%w: the answer has %d rows", store.ErrUnknownOutcome, len(rows))
	}
	return rows[0], nil
}

// outcome is the error that an outcome stands for.
func outcome(said string) error {
	switch said {
	case "stands", "done":
		return nil
	case "over":
		return engine.ErrOver
	case "gone":
		return engine.ErrGone
	case "void", "late": // a later call of the engine has been answered
		return engine.Answered(fmt.Errorf("%w: the request came too late", store.ErrUnavailable))
	}
	return fmt.Errorf("%w: the answer is %q", store.ErrUnknownOutcome, said)
}

// Enter implements engine.Session.
func (s *session) Enter(ctx context.Context, election string, n engine.Nonce, value string) (engine.Entry, error) {
	type row struct {
		Outcome   string
		Token     *int64
		Nearest   *int64
		More      *bool
		Pause     *string
		PauseMark *int64
		PauseTTL  *int64
	}
	d := s.driver
	epoch := d.latest()
	r, err := of[row](ctx, s, "enter($1, $2, $3, $4, $5, $6)", d.name(election), n.Name, n.Slot, int64(n.Turn), []byte(value))
	switch {
	case err != nil:
		return engine.Entry{}, err
	case r.Outcome == "pause" && r.Pause != nil && r.PauseMark != nil && r.PauseTTL != nil:
		d.note(*r.Pause, *r.PauseMark, *r.PauseTTL, time.Now())
		return engine.Entry{}, engine.Answered(fmt.Errorf("%w: the server has failed over, so no ballot is cast for %v more: "+
			"until a ballot that was lost leads no longer", store.ErrUnavailable, time.Duration(*r.PauseTTL)*time.Millisecond))
	case r.Outcome != "stands":
		return engine.Entry{}, outcome(r.Outcome)
	case r.Token == nil:
		return engine.Entry{}, fmt.Errorf("%w: the answer has no token", store.ErrUnknownOutcome)
	}
	if err := d.enter(*r.Token, entered{s, n.Name}, epoch); err != nil {
		return engine.Entry{}, err
	}
	return engine.Entry{Key: key(*r.Token), Token: uint64(*r.Token), Place: place(r.Nearest, r.More != nil && *r.More)}, nil
}

// Void implements engine.Session.
func (s *session) Void(ctx context.Context, election string, n engine.Nonce) error {
	type row struct{ Outcome string }
	s.driver.forgetEntries(func(_ int64, e entered) bool { return e.nonce == n.Name })
	r, err := of[row](ctx, s, "void($1, $2, $3, $4, $5)", s.driver.name(election), n.Name, n.Slot, int64(n.Turn))
	if err != nil {
		return err
	}
	return outcome(r.Outcome)
}

// acknowledgeRow is the row of the function acknowledge.
type acknowledgeRow struct {
	Outcome  string
	Revision *int64
}

// Acknowledge implements engine.Session.
func (s *session) Acknowledge(ctx context.Context, e engine.Entry, value string) (revision uint64, err error) {
	token, turn := int64(e.Token), s.turn.Add(1)
	r, err := of[acknowledgeRow](ctx, s, "acknowledge($1, $2, $3, $4)", token, turn, []byte(value))
	if err == nil {
		err = outcome(r.Outcome)
	}
	switch {
	case err != nil:
		return 0, err
	case r.Revision == nil: // the table service is empty
		return 0, fmt.Errorf("%w: the answer has no revision", store.ErrUnknownOutcome)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.acks[token].turn < turn {
		s.acks[token] = acknowledged{turn, value}
	}
	return uint64(*r.Revision), nil
}

// Remove implements engine.Session.
func (s *session) Remove(ctx context.Context, r engine.Removal) error {
	s.mu.Lock()
	delete(s.acks, int64(r.Token))
	s.mu.Unlock()
	s.driver.forgetEntries(func(token int64, _ entered) bool { return token == int64(r.Token) })
	_, err := of[nothing](ctx, s, "remove($1, $2)", int64(r.Token))
	return err
}
