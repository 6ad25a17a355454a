package leadership_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/internal/suspension"
	"github.com/stretchr/testify/require"
)

// TestFreshAfterASuspension: in the first call after the machine was suspended for an hour, what a follower knows is an hour
// old, though a second has passed by the monotonic clock. Then the store confirms it.
func TestFreshAfterASuspension(t *testing.T) {
	virtual(t, func(w *world) {
		w.lead(w.open(), "a")
		st := w.open()
		var log journal
		f := w.follower(st, &leadership.Options{Logger: log.logger()})
		f.Start()
		w.at(5*renew + time.Second)
		require.True(w, f.Fresh())
		require.Equal(w, time.Second, time.Since(f.AsOf()))

		st.Faults().Cut()
		w.Cleanup(suspension.Simulate(time.Hour))
		require.False(w, f.Fresh())
		require.Equal(w, time.Hour+time.Second, time.Since(f.AsOf()))
		w.at(5*renew + ttl)
		require.Equal(w, 1, strings.Count(log.String(), "has not been confirmed for a TTL"))
		require.Contains(w, log.String(), "age=1h0m")
		st.Faults().Heal()
		w.at(5*renew + 2*ttl)
		require.True(w, f.Fresh())
		require.Equal(w, 1, strings.Count(log.String(), "is confirmed again"))
		require.Less(w, time.Since(f.AsOf()), ttl, "the suspension was before that")
	})
}
