package postgres

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// The rules of reads: a watch is read when it is set, and all watches when Confirm is called, and the link is woken for
// that.
func TestReadsAreAtOnce(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		var told news
		f.answer["look"] = leads(3, 7, time.Hour)
		for i := range 2 {
			began := time.Now()
			w, err := d.WatchLeader(t.Context(), "x", told.tell)
			require.NoError(t, err)
			require.EqualValues(t, 1, w.Stream)
			require.Zero(t, time.Since(began))
			require.Len(t, f.called("look"), 1+i)
			time.Sleep(time.Second)
			synctest.Wait()
		}
		began := time.Now()
		require.NoError(t, d.Confirm(t.Context()))
		require.Zero(t, time.Since(began))
		require.Len(t, f.called("look"), 3)
		require.Len(t, told, 4, "each watch is told the time, and nothing else")
		require.Equal(t, engine.News{AsOf: began}, told[3])

		f.set(func() { f.hangs["look"] = true })
		time.AfterFunc(3*time.Second, f.release)
		began = time.Now()
		require.NoError(t, d.Confirm(t.Context()))
		require.Equal(t, engine.News{AsOf: began}, told[5], "as of the request, not of the answer")
	})
}

// The rules of a read that fails: those that wait get the error, and what was watched before is read on the next
// connection.
func TestReadFails(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		_, err := d.WatchLeader(t.Context(), "x", new(news).tell)
		require.NoError(t, err)
		f.set(func() { f.hangs["look"] = true })
		errs := make(chan error, 3)
		go func() { errs <- d.Confirm(t.Context()) }()
		synctest.Wait()
		go func() { _, err := d.WatchEntry(t.Context(), "5", new(news).tell); errs <- err }()
		go func() { errs <- d.Confirm(t.Context()) }()
		synctest.Wait()
		f.set(func() { f.away["a:1"] = true })
		f.drop()
		for range 3 {
			require.True(t, adapter.Uncertain(<-errs))
		}
		time.Sleep(2 * time.Second) // several tries: none of them answers those again
		f.set(func() { f.away["a:1"] = false })
		require.Len(t, d.watches.list, 1, "the watch that was not set is dropped")
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err = d.WatchEntry(ctx, "6", new(news).tell)
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.Len(t, d.watches.list, 1)
		looks := len(f.called("look"))
		f.set(func() { f.hangs["look"] = false })
		f.drop()
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, f.called("look"), looks+1)
	})
}

// The watch of a leader that is being set in a failover is not set: what it would be told first might be an earlier
// leader.
func TestWatchIsSetInAFailover(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		require.NoError(t, d.Confirm(t.Context()))
		entry, leader := &watch{token: 5, set: make(chan error, 1)}, &watch{election: "x", set: make(chan error, 1)}
		var told news
		entry.tell, leader.tell = told.tell, told.tell
		d.mu.Lock()
		for _, w := range []*watch{entry, leader} {
			d.watches.add(w)
			d.watches.fresh = append(d.watches.fresh, w)
		}
		d.over = true // the connection is a new one, to the new primary
		d.link.wake()
		d.mu.Unlock()
		require.ErrorIs(t, <-leader.set, store.ErrUnavailable)
		require.NoError(t, <-entry.set)
		synctest.Wait()
		require.NotContains(t, d.watches.list, "x")
		require.Contains(t, d.watches.list, "")
	})
}

// What a read asks for: the value of a leader is sent again unless all watches of the election know it.
func TestWanted(t *testing.T) {
	knows := func(election string, revision uint64) *watch {
		w := &watch{election: election}
		if revision != 0 {
			w.told = &engine.State{Leader: store.Leader{Revision: revision}}
		}
		return w
	}
	for _, c := range []struct {
		list     []*watch
		revision int64
	}{
		{[]*watch{knows("x", 0)}, -1},
		{[]*watch{{election: "x", told: &engine.State{}}}, -1},
		{[]*watch{knows("x", 3)}, 3},
		{[]*watch{knows("x", 3), knows("x", 3)}, 3},
		{[]*watch{knows("x", 3), knows("x", 4)}, -1},
		{[]*watch{knows("x", 3), knows("x", 4), knows("x", 4)}, -1},
		{[]*watch{knows("x", 3), knows("x", 0), knows("x", 3)}, -1},
		{[]*watch{{election: "x", token: 5}, knows("x", 3)}, 3},
	} {
		_, elections, known := (&batch{list: c.list}).wanted()
		require.Equal(t, []string{"x"}, elections)
		require.Equal(t, []int64{c.revision}, known)
	}
	tokens, elections, known := (&batch{list: []*watch{{token: 5, election: "x"}, {token: 6}}}).wanted()
	require.Equal(t, []int64{5, 6}, tokens)
	require.Empty(t, elections)
	require.Empty(t, known)
}

// The rules of what is told: the entry that is last in the queue is told first, a dead leader leads no more, a dead
// entry stands while its row does, and nothing is told twice.
func TestShow(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		type tells struct {
			token int64
			news  engine.News
		}
		var told []tells
		sent := time.Now()
		watching := func(election string, token int64) *watch {
			w := &watch{token: token, election: election}
			w.tell = func(n engine.News) { told = append(told, tells{token, n}) }
			d.watches.add(w)
			return w
		}
		b := &batch{list: []*watch{watching("x", 1), watching("", 3), watching("x", 0), watching("x", 2)}, all: true}
		stopped := watching("", 4)
		b.list = append(b.list, stopped)
		d.watches.drop(stopped)
		show := func(rows ...lookRow) (list []tells) {
			told = nil
			d.show(b, rows, sent)
			return told
		}
		revision := int64(9)
		d.note("dead", 7, 60_000, sent)
		d.note("elsewhere", 7, 60_000, sent)
		d.marks["dead"].dead, d.marks["elsewhere"].watched = true, true
		one := lookRow{Token: 1, Election: "x", Session: "dead", Nonce: "n1", Mark: 7, TTL: 60_000}
		three := lookRow{Token: 3, Election: "y", Session: "s", Nonce: "n3", Mark: 7, TTL: 60_000}
		leader := lookRow{Token: 1, Election: "x", Session: "s", Leader: []byte("own"), Revision: &revision, Mark: 7, TTL: 60_000}

		first := show(one, three, lookRow{Token: 4, Election: "y", Session: "s", Nonce: "n4", Mark: 7, TTL: 60_000}, leader)
		var order []int64
		for _, n := range first {
			order = append(order, n.token)
		}
		require.Equal(t, []int64{4, 3, 2, 1, 0}, order)
		require.Equal(t, engine.State{Token: 3, Session: "s", Nonce: "n3"}, *first[1].news.State)
		require.Equal(t, engine.State{}, *first[2].news.State, "it has gone")
		require.Equal(t, engine.State{Token: 1, Session: "dead", Nonce: "n1"}, *first[3].news.State)
		require.Equal(t, engine.News{State: &engine.State{Leader: store.Leader{Value: "own", Revision: 9}}, AsOf: sent}, first[4].news)
		require.Len(t, d.watches.list["y"], 1, "the election is known now, and the watch that was stopped is not back")
		require.NotContains(t, d.watches.list, "")
		require.True(t, d.marks["s"].watched)
		require.True(t, d.marks["dead"].watched)
		require.False(t, d.marks["elsewhere"].watched, "nothing that is watched is of that session")

		leader.Leader = nil // its revision is known
		again := show(one, three, lookRow{Token: 4, Election: "y", Session: "s", Nonce: "n4", Mark: 7, TTL: 60_000}, leader)
		require.Equal(t, []tells{{0, engine.News{AsOf: sent}}}, again)
		three.Resign = true
		require.Equal(t, engine.State{Token: 3, Session: "s", Nonce: "n3", Resign: true}, *show(one, three, leader)[1].news.State)
		leader.Session = "dead"
		gone := show(one, three, leader)
		require.Equal(t, []tells{{0, engine.News{State: &engine.State{}, AsOf: sent}}}, gone)
		require.Equal(t, []tells{{0, engine.News{AsOf: sent}}}, show(one, three))
		b.all = false
		d.marks["elsewhere"].watched = true
		show(one, three)
		require.True(t, d.marks["elsewhere"].watched, "only a part of what is watched was read")
	})
}

// An older copy of the data has come back, and has given a token out again. The entry of before has gone, whether or not
// its watch has told it, and the new one stands.
func TestTokenIsGivenOutAgain(t *testing.T) {
	inBubble(t, Config{TTL: 24 * time.Second}, func(t *testing.T, f *fakeServer, d *driver) {
		entry := func(nonce string) func([]string) []any {
			return one(int64(5), "x", "session of "+nonce, nonce, false, nil, nil, int64(7), int64(60_000))
		}
		f.answer["look"] = entry("n1")
		var before, after, own news
		_, err := d.WatchEntry(t.Context(), "5", before.tell)
		require.NoError(t, err)
		require.Equal(t, "n1", before[0].State.Nonce)
		f.set(func() { f.answer["look"] = entry("n2") })
		f.drop()
		_, err = d.WatchEntry(t.Context(), "5", after.tell)
		for err != nil { // the connection was lost
			_, err = d.WatchEntry(t.Context(), "5", after.tell)
		}
		require.NoError(t, d.Confirm(t.Context()))
		require.Len(t, before, 2)
		require.Zero(t, *before[1].State)
		require.Len(t, after, 1)
		require.Equal(t, "n2", after[0].State.Nonce)

		s, _, err := d.Open(t.Context())
		require.NoError(t, err)
		f.set(func() { f.answer["enter"] = one("stands", int64(5), nil, nil, nil, nil, nil) })
		_, err = s.Enter(t.Context(), "x", engine.Nonce{Name: "n3"}, "own")
		require.NoError(t, err)
		_, err = d.WatchEntry(t.Context(), "5", own.tell)
		require.NoError(t, err)
		require.Zero(t, *own[0].State, "it was lost before its watch was set")
		require.Len(t, after, 1)
	})
}
