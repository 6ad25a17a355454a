package etcd

import (
	"context"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// closeLimit is how long Close may take beside a server that the machine starves: Close waits for no more than 3 s.
const closeLimit = 10 * time.Second

// Close at a bad moment also returns soon, and leaves nothing behind.
func TestCloseInBadTimes(t *testing.T) {
	config := user(t, sharedGuarded(t))
	silent := storetest.SilentServer(t)
	before := goleak.IgnoreCurrent()
	for name, c := range map[string]struct {
		change func(c *Config, network *conformance.Network)
		work   func(st *Store, network *conformance.Network)
	}{
		"at once":          {},
		"no server":        {change: func(c *Config, _ *conformance.Network) { c.Endpoints = []string{"127.0.0.1:1"} }},
		"silence":          {change: func(c *Config, _ *conformance.Network) { c.Endpoints = []string{silent} }},
		"wrong password":   {change: func(c *Config, _ *conformance.Network) { c.Password = "wrong" }},
		"cut off at first": {change: func(_ *Config, network *conformance.Network) { network.Cut() }},
		"cut off while leading": {work: func(st *Store, network *conformance.Network) {
			castFirst(t, st, "a", "own")
			network.Cut()
		}},
		"replies lost": {work: func(st *Store, network *conformance.Network) {
			castFirst(t, st, "b", "own")
			network.LoseReplies()
			_, _ = st.Cast(within(t, 100*time.Millisecond), "b", "abandoned")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			network := conformance.NewNetwork()
			config := config
			config.Dial, config.TTL = network.Dial, middling
			if c.change != nil {
				c.change(&config, network)
			}
			st, err := Open(config)
			require.NoError(t, err)
			ended := make(chan error, 3)
			go func() { _, err := st.Cast(context.Background(), "c", "x"); ended <- err }()
			go func() { _, err := storetest.Leader(context.Background(), st, "c", &store.Leader{}); ended <- err }()
			go func() { _, err := st.Ballots(context.Background(), "d"); ended <- err }()
			if c.work != nil {
				c.work(st, network)
			}
			meter := stall.Start()
			start := time.Now()
			closing := make(chan error, 2)
			for range 2 {
				go func() { closing <- st.Close() }()
			}
			for range 2 {
				require.NoError(t, receive(t, closing, "the end of Close"))
			}
			require.Less(t, time.Since(start), closeLimit+meter.Stalled(), "%v", meter)
			for range 3 {
				receive(t, ended, "the end of a call")
			}
			meter.Stop()
			goleak.VerifyNone(t, before)
		})
	}
}
