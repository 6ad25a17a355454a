// Package agent talks to Consul's agents: it dials them, carries requests over few connections, says what their answers
// and errors mean, and reads and writes keys. It knows nothing of elections.
package agent

import (
	"context"
	"crypto/tls"
	"log/slog"
	"strings"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/hashicorp/consul/api"
)

// Config are the settings of a client. The store's Config explains them.
type Config struct {
	Addresses                        []string
	Datacenter, Namespace, Partition string
	Token                            func(ctx context.Context) (string, error)
	TTL                              time.Duration // for which idle connections are kept
	TLS                              *tls.Config
	Dialer                           *adapter.Dialer
	Client                           *api.Client // of the caller, instead of the addresses and what belongs to them
	Logger                           *slog.Logger
}

// Client sends requests to an agent.
type Client struct {
	*api.Client
	Life   *adapter.Lifecycle // its Calls are not used
	config Config
	dialer *dialer       // nil with a client of the caller's, as are the connections
	conns  *connections  // constant
	burst  chan struct{} // has room for those requests of Request that are under way
}

// New returns a client. It sends nothing.
func New(life *adapter.Lifecycle, config Config) (*Client, error) {
	c := &Client{Client: config.Client, Life: life, config: config, burst: make(chan struct{}, Burst)}
	if c.Client != nil {
		return c, nil
	}
	c.dialer = &dialer{addresses: config.Addresses, names: config.Dialer, tls: config.TLS, ttl: config.TTL}
	c.conns = newConnections(c.dialer, config)
	var err error
	if c.Client, err = newAPIClient(c.conns, config); err != nil {
		return nil, adapter.Refuse("addresses", strings.Join(config.Addresses, ","), "%v", err)
	}
	return c, nil
}

// Close ends all dials, waits for them, and closes all connections but those of a caller's client. All requests have ended.
func (c *Client) Close() {
	if c.conns != nil {
		c.dialer.close(c.conns.transport.CloseIdleConnections)
	}
}

// ReadOptions are the options of a read that any server may answer.
func (c *Client) ReadOptions(ctx context.Context) *api.QueryOptions {
	q := &api.QueryOptions{Datacenter: c.config.Datacenter, Namespace: c.config.Namespace, Partition: c.config.Partition}
	return q.WithContext(ctx)
}

// Consistent are the options of a read that sees all that was written before it was sent: the server that answers has
// asked the others whether it still leads.
func (c *Client) Consistent(ctx context.Context) *api.QueryOptions {
	q := c.ReadOptions(ctx)
	q.RequireConsistent = true
	return q
}

// WriteOptions are the options of a write.
func (c *Client) WriteOptions(ctx context.Context) *api.WriteOptions {
	q := &api.WriteOptions{Datacenter: c.config.Datacenter, Namespace: c.config.Namespace, Partition: c.config.Partition}
	return q.WithContext(ctx)
}
