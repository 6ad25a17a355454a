package postgres

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// A session is shown often: one request is under way to end it, and the others keep their places.
func TestExpireOnce(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		f.hangs["expire"] = true
		began := time.Now()
		d.note("dead", 7, 3000, began)
		d.note("dead", 7, 3000, began.Add(3*time.Second-1))
		synctest.Wait()
		require.Empty(t, f.called("expire"), "its mark has not stood for the TTL")
		for range 10 {
			d.note("dead", 7, 3000, began.Add(3*time.Second))
		}
		time.Sleep(2 * time.Second) // for more connections
		synctest.Wait()
		require.Len(t, f.called("expire"), 1)
		d.note("dead", 8, 3000, began.Add(4*time.Second)) // it was renewed meanwhile
		d.note("dead", 8, 3000, began.Add(7*time.Second))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Len(t, f.called("expire"), 1)
		time.Sleep(d.config.limit())
		synctest.Wait()
		d.note("dead", 8, 3000, began.Add(8*time.Second))
		synctest.Wait()
		require.Len(t, f.called("expire"), 2, "there was no answer, so the session is ended again")
	})
}

// Who may not end a session knows all the same that its lease is over, until the session is renewed.
func TestDead(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		f.fails["expire"] = "42501"
		now := time.Now()
		after := func(wait time.Duration, mark int64) bool {
			now = now.Add(wait)
			dead := d.note("dead", mark, 3000, now)
			synctest.Wait()
			return dead
		}
		require.False(t, after(0, 7))
		require.False(t, after(3*time.Second, 7), "the answer has not come")
		require.Len(t, f.called("expire"), 1)
		require.True(t, after(0, 7))
		require.True(t, after(3*time.Second-1, 7))
		require.Len(t, f.called("expire"), 1, "the next try is after twice the TTL")
		require.True(t, after(1, 7))
		require.Len(t, f.called("expire"), 2)
		require.False(t, after(0, 8), "its holder has come back")
		require.False(t, after(3*time.Second, 8))
		require.Len(t, f.called("expire"), 3)
		require.True(t, after(0, 8))
		f.set(func() { delete(f.fails, "expire") })
		require.True(t, after(6*time.Second, 8))
		require.Len(t, f.called("expire"), 4)
		require.False(t, after(0, 9), "it was ended, and this is another one of the name")
	})
}

// A session that is renewed while the request to end it is refused does not count as dead.
func TestDeadByAnEarlierMark(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		f.fails["expire"] = "42501"
		now := time.Now()
		d.note("alive", 7, 3000, now)
		d.note("alive", 7, 3000, now.Add(3*time.Second))
		require.False(t, d.note("alive", 8, 3000, now.Add(3*time.Second)))
		synctest.Wait()
		require.Len(t, f.called("expire"), 1)
		require.False(t, d.note("alive", 8, 3000, now.Add(4*time.Second)))
	})
}

// Requests to end many sessions that hang keep no renewal from being sent, and no session from
// being opened.
func TestExpireLeavesRoomForRenewals(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		s, _, err := d.Open(t.Context())
		require.NoError(t, err)
		f.set(func() { f.hangs["expire"] = true })
		for i := range 10 {
			d.note(fmt.Sprint(i), 7, 1000, time.Now())
			d.note(fmt.Sprint(i), 7, 1000, time.Now().Add(time.Second))
		}
		synctest.Wait()
		began := time.Now()
		require.NoError(t, s.(*session).renew(t.Context(), func(engine.Proof) {}))
		require.Equal(t, time.Second, time.Since(began), "a connection is made for it")
		_, _, err = d.Open(t.Context())
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(began))
	})
}

// A renewal shows another mark of a session that is watched: it is watched on. What no answer shows any more is
// forgotten.
func TestWatchedOn(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		f.answer["look"] = leads(3, 7, 10*time.Second)
		w, err := d.WatchLeader(t.Context(), "x", new(news).tell)
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		d.note("holder", 8, 10_000, time.Now())
		require.False(t, d.marks.due().IsZero())
		f.set(func() { f.answer["look"] = one() })
		w.Stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, d.marks)
	})
}

// A mark is forgotten if it has not been shown for twice the longer TTL, and not while the session is being ended.
func TestForget(t *testing.T) {
	now := time.Now()
	m := marks{"a": {last: now, left: time.Second}, "b": {last: now, left: time.Minute}, "c": {last: now, left: time.Second, expiring: true}}
	m.forget(now.Add(20*time.Second), 10*time.Second)
	require.Len(t, m, 3)
	m.forget(now.Add(20*time.Second+1), 10*time.Second)
	require.NotContains(t, m, "a")
	require.Len(t, m, 2)
	m.forget(now.Add(2*time.Minute+1), 10*time.Second)
	require.NotContains(t, m, "b")
	require.Contains(t, m, "c")
}

// A dead session with a TTL much shorter than that of the only process that is left: the process is shown the mark in each
// of its renewals, and does not forget it between two of them.
func TestMarkOfAShortTTL(t *testing.T) {
	inBubble(t, Config{TTL: 30 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		f.answer["renew"] = func(args []string) []any {
			return []any{[]any{args[0], int64(7), int64(30_000)}, []any{"dead", int64(1), int64(1000)}}
		}
		s, _, err := d.Open(t.Context())
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Keep(ctx, func(engine.Proof) {}) }()
		time.Sleep(6 * time.Second)
		synctest.Wait()
		require.Len(t, f.called("renew"), 2)
		require.Len(t, f.called("expire"), 1)
		require.Equal(t, []string{"dead", "1"}, f.args("expire"))
		stop()
		require.Error(t, <-ended)
	})
}

// Due are the marks of sessions that are watched and may be ended, the first of them.
func TestDue(t *testing.T) {
	now := time.Now()
	require.Zero(t, marks{}.due())
	m := marks{
		"others": {}, "expiring": {watched: true, expiring: true}, "dead": {watched: true, dead: true},
		"tried": {watched: true, retry: now.Add(9)}, "first": {watched: true}, "second": {watched: true}, "third": {watched: true},
	}
	for id, left := range map[string]time.Duration{"others": 1, "expiring": 2, "dead": 3, "tried": 4, "first": 5, "second": 6, "third": 7} {
		m[id].silence.Note("7", left, now)
	}
	require.Equal(t, now.Add(5), m.due())
}

// A request to end a session that fails is sent again after a while, not at once.
func TestExpireFails(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		f.answer["look"], f.fails["expire"] = leads(3, 7, 8*time.Second), "53100"
		_, err := d.WatchLeader(t.Context(), "x", new(news).tell)
		require.NoError(t, err)
		time.Sleep(8*time.Second - 1)
		synctest.Wait()
		require.Empty(t, f.called("expire"))
		time.Sleep(8 * time.Second)
		synctest.Wait()
		require.Len(t, f.called("expire"), 8)
	})
}
