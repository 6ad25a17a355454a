package kvwatch

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/store/consul/internal/agent"
	"github.com/stretchr/testify/require"
)

// What was offered is told of a key that is not watched, and of a key whose watch knows the same. If the watch knows another
// state, which of the two is later is not known, and a read has to tell.
func TestOfferToAWatch(t *testing.T) {
	offered := agent.Entry{Exists: true, Session: "s", Create: 2, Modify: 4}
	for name, c := range map[string]struct {
		known bool
		state agent.Entry
		told  bool
	}{
		"it knows the same":      {true, offered, true},
		"it knows another state": {true, agent.Entry{Exists: true, Session: "s", Create: 2, Modify: 3}, false},
		"it knows no state":      {false, agent.Entry{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			all, w := newWatcher(t, Options{}, func(News) {})
			w.known, w.state, w.queried = c.known, c.state, true // in this test there is no query
			all.Offer("prefix/", map[string]agent.Read{"prefix/key": {Entry: offered, Index: 4}})
			var news []News
			again, told := all.join("prefix/key", false, &user{tell: func(n News) { news = append(news, n) }})
			require.Same(t, w, again)
			require.Equal(t, c.told, told)
			if told {
				require.Equal(t, []News{{Entry: offered}}, news)
			}
		})
	}
}

// Once something newer is told of a directory, what was offered there is not told any more.
func TestOfferIsTakenBack(t *testing.T) {
	all, w := newWatcher(t, Options{}, func(News) {})
	all.Offer("prefix/", map[string]agent.Read{"prefix/other": {Entry: agent.Entry{Exists: true, Create: 2, Modify: 2}, Index: 2}})
	require.True(t, w.accept(w.version, agent.Read{Entry: agent.Entry{Exists: true, Create: 3, Modify: 3}, Index: 3}, time.Time{}, nil))
	require.Empty(t, all.offers)
}
