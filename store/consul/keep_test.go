package consul_test

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/stall"
	"github.com/go-leadership/leadership/internal/suspension"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/stretchr/testify/require"
)

// A machine that resumes from a suspension confirms its session at once: the timer of the next confirmation is as late as the
// suspension was long, while the lease counts that time.
func TestConfirmedAfterASuspension(t *testing.T) {
	b := castFirst(t, open(t, consul.Config{}), newElection(), "own")
	before, meter, began := b.Lease().Last().Sent, stall.Watch(t), time.Now()
	suspension.Resume()
	eventually(t, func() bool { return b.Lease().Last().Sent.After(before) }, "it is confirmed")
	require.Less(t, time.Since(began), long/8+meter.Stalled(), "it waited for the next confirmation; %v", meter)
}
