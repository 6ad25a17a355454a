package consul

import (
	"context"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store/consul/internal/agent"
)

// Ballots that come back.
//
// `consul snapshot restore` brings keys back that were deleted since the snapshot was taken, and the sessions that lock
// them. A withdrawn ballot of a session that the store goes on renewing would stand for as long as the store lives. So
// the engine is told of the ballots of its session that are met, and voids those that have its nonce and no owner. A
// ballot of another program on the same session is left alone.
//
// Such a ballot is met by the store's own candidates in the same election. And after a restore, which ends all blocking
// queries without news, the driver looks for them in all elections.

// sweepRevived looks for ballots of the session in all elections, in the background.
func (d *driver) sweepRevived(sess *session) {
	if !d.sweeping.CompareAndSwap(false, true) {
		return
	}
	if !d.life.Go(func() {
		defer d.sweeping.Store(false)
		ctx, cancel := context.WithTimeout(d.life.Background, max(d.config.TTL, agent.RequestLimit))
		defer cancel()
		for ctx.Err() == nil {
			names, err := d.client.Keys(ctx, d.layout.prefix+"/")
			if err == nil {
				for _, key := range names {
					if id, _ := owner(key); id == sess.id && d.layout.electionOf(key) != "" {
						d.found(id, d.layout.electionOf(key), nonceOf(key))
					}
				}
				return
			}
			adapter.PauseFor(ctx, time.Second/4)
		}
	}) {
		d.sweeping.Store(false)
	}
}
