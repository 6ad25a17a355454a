package zookeeper

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// The first confirmation of a connection has a lower zxid than one that an earlier connection has told. It proves nothing,
// and the session is given up. It stands until the engine ends it, so that a leader's work may stop before. Then there is
// another one.
func TestRestoreEndsTheSession(t *testing.T) {
	for name, test := range map[string]struct {
		zxids    []int64 // by connection
		restored bool
	}{
		"goes on": {[]int64{100, 101}, false}, "goes back": {[]int64{100, 99}, true},
		"has gone back": {[]int64{100, 50, 51}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scriptedServer{ttl: scriptedTTL, zxid: func(dial int) int64 { return test.zxids[min(dial, len(test.zxids))-1] }}
				d := s.driver(t)
				session, _, err := d.Open(t.Context())
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				kept := make(chan error, 1)
				var renewed atomic.Pointer[engine.Proof]
				go func() { kept <- session.Keep(ctx, func(p engine.Proof) { renewed.Store(&p) }) }()
				var broken time.Time
				for range len(test.zxids) - 1 {
					time.Sleep(scriptedTTL + scriptedTTL/12) // between two confirmations
					broken = time.Now()
					Break(d)
				}
				time.Sleep(scriptedTTL)
				require.Equal(t, test.restored, renewed.Load().Sent.Time().Before(broken))
				if !test.restored {
					require.Empty(t, kept)
					return
				}
				require.Len(t, kept, 1)
				require.ErrorIs(t, <-kept, errRestored)
				_, _, err = d.Open(t.Context())
				require.ErrorIs(t, err, errKept)
				require.NoError(t, session.End(t.Context(), nil))
				require.Len(t, s.ended, 1)
				next, _, err := d.Open(t.Context())
				require.NoError(t, err)
				require.NotEqual(t, session.ID(), next.ID())
			})
		})
	}
}
