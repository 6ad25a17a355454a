package etcd

import (
	"context"
	"strconv"

	"github.com/go-leadership/leadership/internal/lifeline"
)

func init() {
	lifeline.Register("etcd", func(s lifeline.Service) (lifeline.Ender, error) {
		secure, err := s.Secure.Config()
		if err != nil {
			return nil, err
		}
		d, err := newDriver(Config{Endpoints: s.Servers, User: s.User, Password: s.Password, TLS: secure, TTL: s.TTL})
		if err != nil {
			return nil, err
		}
		d.life.Go(d.connect)
		d.life.Go(func() { _, _ = d.connected(d.life.Background) })
		return ender{d}, nil
	})
}

// Handover implements engine.Handover: the id is enough.
func (s *session) Handover() []byte { return nil }

// ender ends leases of other processes. Its connection is kept open, which saves the time to make one when it counts.
type ender struct{ driver *driver }

// End implements lifeline.Ender.
func (e ender) End(ctx context.Context, id string, _ []byte) error {
	lease, err := strconv.ParseInt(id, 16, 64)
	if err != nil {
		return err
	}
	return e.driver.end(ctx, lease)
}

// Close implements lifeline.Ender.
func (e ender) Close() error { return e.driver.Close() }
