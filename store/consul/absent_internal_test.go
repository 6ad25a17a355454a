package consul

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// A leader came and went between two times at which none was found. An answer of the time between them arrives last: it
// is older than what has been told as of the second time.
func TestAnswerFromBetweenTwoAbsences(t *testing.T) {
	for name, confirm := range map[string]func(*watch, time.Time){
		"a look": func(w *watch, asOf time.Time) { w.driver.mark(seen{w, w.version, w.state}, asOf) },
		"a read": func(w *watch, asOf time.Time) { require.True(t, w.accept(w.version, entry{}, 1, asOf)) },
	} {
		t.Run(name, func(t *testing.T) {
			d, err := newDriver(Config{Addresses: []string{"127.0.0.1:1"}, TTL: time.Second})
			require.NoError(t, err)
			defer func() { require.NoError(t, d.Close()) }()
			all := &d.watches
			var told []engine.News
			w := &watch{driver: d, key: "key", ack: true, known: true, index: 1, subs: map[*sub]struct{}{
				{func(n engine.News) { told = append(told, n) }}: {},
			}}
			all.mu.Lock()
			all.byKey[w.key] = w
			w.turn = all.turns.PushBack(w)
			all.mu.Unlock()
			asked := w.version // by a query that is on its way
			confirm(w, time.Now())
			require.Len(t, told, 1)
			between := entry{exists: true, session: "s", value: "v", create: 2, modify: 2}
			require.False(t, w.accept(asked, between, 2, time.Time{}))
			require.Len(t, told, 1)
		})
	}
}
