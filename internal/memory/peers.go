package memory

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// peersDriver implements engine.Peers, too: the service does not end its sessions by itself.
type peersDriver struct{ *driver }

// errMark refuses to expire a session that was renewed.
var errMark = fmt.Errorf("%w: the session has another mark", store.ErrUnavailable)

// Peer implements engine.Peers.
func (d peersDriver) Peer(ctx context.Context, session string) (engine.Peer, error) {
	return read(ctx, d.faults, func() (engine.Peer, error) {
		sess := d.service.named(session)
		if sess == nil {
			return engine.Peer{}, engine.ErrOver
		}
		p := engine.Peer{Mark: strconv.FormatUint(sess.mark, 10), TTL: byClock(sess.ttl, d.config.Clock)}
		if sess.proved.mark == sess.mark {
			p.Age = byClock(sess.proved.age, d.config.Clock)
		}
		return p, nil
	})
}

// proved is for how long a session is proved to have had a mark. The processes measure that by their own clocks.
type proved struct {
	mark uint64
	age  time.Duration
}

// Prove implements engine.Peers.
func (d peersDriver) Prove(ctx context.Context, session, mark string, age time.Duration) error {
	return write(ctx, d.faults, func() error {
		sess := d.service.named(session)
		switch {
		case sess == nil || strconv.FormatUint(sess.mark, 10) != mark:
			return nil
		case sess.proved.mark != sess.mark:
			sess.proved = proved{mark: sess.mark}
		}
		sess.proved.age = max(sess.proved.age, time.Duration(float64(age)*cmp.Or(d.config.Clock, 1)))
		return nil
	})
}

// Expire implements engine.Peers.
func (d peersDriver) Expire(ctx context.Context, session, mark string) error {
	return write(ctx, d.faults, func() error {
		sess := d.service.named(session)
		if sess == nil {
			return nil
		}
		if strconv.FormatUint(sess.mark, 10) != mark {
			return engine.Answered(errMark)
		}
		d.service.expired(sess)
		d.service.end(sess)
		return nil
	})
}

// named returns the session with that name of sessionName, or nil.
func (s *Service) named(name string) *session {
	id, _ := strconv.ParseUint(name, 10, 64)
	return s.sessions[id]
}

// byClock returns how long d takes by a clock that runs at the given rate; 0 stands for 1.
func byClock(d time.Duration, rate float64) time.Duration {
	if rate == 0 || rate == 1 {
		return d
	}
	return time.Duration(float64(d) / rate)
}

// SetClock makes the service's clock run faster or slower than time. The service measures the TTL of sessions by it. It
// is called before the first store is opened.
func (s *Service) SetClock(rate float64) { s.clock = rate }
