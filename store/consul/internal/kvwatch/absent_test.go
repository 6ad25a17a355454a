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
	life := adapter.NewLife("consul", false, "")
	client, err := agent.New(life, agent.Config{
		Addresses: []string{"127.0.0.1:1"}, TTL: time.Second, Logger: slog.New(slog.DiscardHandler),
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() },
	})
	require.NoError(t, err)
	t.Cleanup(func() { life.Stop(); life.Wait(); client.Close() })
	all := New(client, "prefix/")
	w, told := all.join("prefix/key", o.Once, &user{Options: o, tell: tell, set: true})
	require.False(t, told)
	return all, w
}

// A leader came and went between two times at which none was found. An answer of the time between them arrives last: it
// is older than what has been told as of the second time.
func TestAnswerFromBetweenTwoAbsences(t *testing.T) {
	told := 0
	_, w := newWatcher(t, Options{}, func(News) { told++ })
	require.True(t, w.accept(w.version, agent.Read{Index: 1}, time.Now(), nil))
	asked := w.version // by a query that is on its way
	require.True(t, w.accept(w.version, agent.Read{Index: 1}, time.Now(), nil))
	require.Equal(t, 2, told)
	between := agent.Read{Entry: agent.Entry{Exists: true, Session: "s", Value: "v", Create: 2, Modify: 2}, Index: 2}
	require.False(t, w.accept(asked, between, time.Time{}, nil))
	require.Equal(t, 2, told)
}

// The end of a key is told if the other one is known to have outlived it, and left to a read otherwise.
func TestEndWhileAnotherExists(t *testing.T) {
	stands := agent.Read{Entry: agent.Entry{Exists: true, Session: "s", Create: 2, Modify: 2}, Index: 2}
	released := agent.Read{Entry: agent.Entry{Exists: true, Create: 2, Modify: 3}, Index: 3}
	for name, c := range map[string]struct {
		end    agent.Read
		beside []string
		want   News
	}{
		"it existed":    {agent.Read{Index: 3}, []string{"other", "prefix/own"}, News{}},
		"it did not":    {agent.Read{Index: 3}, []string{"other"}, News{Over: true}},
		"it is unknown": {agent.Read{Index: 3}, nil, News{Over: true}},
		"lock given up": {released, nil, News{Over: true}},
		"nothing ended": {agent.Read{Entry: agent.Entry{Exists: true, Session: "s", Create: 2, Modify: 3}}, nil, News{Entry: agent.Entry{Exists: true, Session: "s", Create: 2, Modify: 3}}},
	} {
		t.Run(name, func(t *testing.T) {
			var told []News
			_, w := newWatcher(t, Options{Once: true, While: "prefix/own", Session: "s"}, func(n News) { told = append(told, n) })
			require.True(t, w.accept(w.version, stands, time.Time{}, nil))
			require.True(t, w.accept(w.version, c.end, time.Time{}, c.beside))
			require.Equal(t, []News{{Entry: stands.Entry}, c.want}, told)
		})
	}
}
