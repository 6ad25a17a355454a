package consul

import (
	"context"

	"github.com/go-leadership/leadership/internal/lifeline"
)

func init() {
	lifeline.Register("consul", func(s lifeline.Service) (lifeline.Ender, error) {
		secure, err := s.Secure.Config()
		if err != nil {
			return nil, err
		}
		d, err := newDriver(Config{
			Addresses: s.Servers, Token: s.Password, TLS: secure, TTL: s.TTL,
			Datacenter: s.Parameters["dc"], Namespace: s.Parameters["namespace"], Partition: s.Parameters["partition"],
		})
		if err != nil {
			return nil, err
		}
		return ender{d}, nil
	})
}

// place is where a session is, besides the agents: the options of a URL.
func (c Config) place() map[string]string {
	return map[string]string{"dc": c.Datacenter, "namespace": c.Namespace, "partition": c.Partition}
}

// Handover implements engine.Handover: the session's check is removed with it.
func (s *session) Handover() []byte { return []byte(s.check) }

// ender ends sessions of other processes.
type ender struct{ driver *driver }

// End implements lifeline.Ender.
func (e ender) End(ctx context.Context, id string, check []byte) error {
	return e.driver.clearAway(ctx, &session{id: id, check: string(check)})
}

// Close implements lifeline.Ender.
func (e ender) Close() error { return e.driver.Close() }
