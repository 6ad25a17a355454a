package kvwatch

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store/consul/internal/agent"
	"github.com/stretchr/testify/require"
)

// newWatcher returns a watcher whose agent does not answer, and a watch of a key with one user.
func newWatcher(t *testing.T, o Options, tell func(News)) (*Watcher, *watch) {
	t.Helper()
	life := adapter.NewLifecycle("consul", false, "")
	client, err := agent.New(life, agent.Config{
		Addresses: []string{"127.0.0.1:1"}, TTL: time.Second, Logger: slog.New(slog.DiscardHandler),
		Dialer: adapter.NewDialer(func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }, nil),
	})
	require.NoError(t, err)
	t.Cleanup(func() { life.Stop(); life.Wait(); client.Close() })
	all := New(client, "prefix/", func(_ string, e agent.Entry) bool { return e.Session != "" }, func() {})
	w, told := all.join("prefix/key", o.Once, &user{Options: o, tell: tell, set: true})
	require.False(t, told)
	return all, w
}

// A leader came and went between two times at which none was found. An answer from between them arrives last: it is
// older than what was reported as of the second time.
func TestAnswerFromBetweenTwoAbsences(t *testing.T) {
	told := 0
	_, w := newWatcher(t, Options{}, func(News) { told++ })
	require.True(t, w.accept(w.version, agent.Read{Index: 1}, time.Now(), nil))
	asked := w.version // by a query that is under way
	require.True(t, w.accept(w.version, agent.Read{Index: 1}, time.Now(), nil))
	require.Equal(t, 2, told)
	between := agent.Read{Entry: agent.Entry{Exists: true, Session: "s", Value: "v", Create: 2, Modify: 2}, Index: 2}
	require.False(t, w.accept(asked, between, time.Time{}, nil))
	require.Equal(t, 2, told)
}

// A watch reports that a key was removed if the other key is known to have outlived it; otherwise it is read again.
func TestEndWhileAnotherExists(t *testing.T) {
	stands := agent.Read{Entry: agent.Entry{Exists: true, Session: "s", Create: 2, Modify: 2}, Index: 2}
	released := agent.Read{Entry: agent.Entry{Exists: true, Create: 2, Modify: 3}, Index: 3}
	own := func(session string) map[string]agent.Entry {
		return map[string]agent.Entry{"prefix/own": {Exists: true, Session: session}, "prefix/other": stands.Entry}
	}
	flagged := agent.Read{Entry: agent.Entry{Exists: true, Session: "s", Create: 2, Modify: 3, Flags: 1}, Index: 3}
	for name, c := range map[string]struct {
		end    agent.Read
		beside map[string]agent.Entry
		want   News
	}{
		"it stood":           {agent.Read{Index: 3}, own("o"), News{}},
		"it was released":    {agent.Read{Index: 3}, own(""), News{Over: true}},
		"it was deleted":     {agent.Read{Index: 3}, map[string]agent.Entry{}, News{Over: true}},
		"it was not read":    {agent.Read{Index: 3}, nil, News{Over: true}},
		"released":           {released, own("o"), News{Entry: released.Entry}},
		"released by a read": {released, nil, News{Over: true}},
		"it goes on":         {flagged, nil, News{Entry: flagged.Entry}},
	} {
		t.Run(name, func(t *testing.T) {
			var told []News
			_, w := newWatcher(t, Options{Once: true, While: "prefix/own"}, func(n News) { told = append(told, n) })
			require.True(t, w.accept(w.version, stands, time.Time{}, nil))
			require.True(t, w.accept(w.version, c.end, time.Time{}, c.beside))
			require.Equal(t, []News{{Entry: stands.Entry}, c.want}, told)
		})
	}
}

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
