package serve

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/operate"
	"github.com/stretchr/testify/require"
)

func TestFollowsWhatTheStoreLists(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		w.lead(st, "a/b", "db1")
		w.start(Config{})
		e := w.election("a/b")
		require.Equal(t, "led", e.State)
		require.Equal(t, "db1", e.Leader.Value)
		require.True(t, e.AtLeast)
		require.Len(t, e.Ballots, 1)
		require.Contains(t, w.get("/").Body.String(), "found at the start")

		w.lead(st, "new", "x")
		pass(listEvery)
		require.Equal(t, "x", w.election("new").Leader.Value)
		pass(time.Minute)
		require.EqualValues(t, 8, w.store.lists.Load(), "one at the start, and one in 10 s")
	})
}

// A change of the leader: how long there was none, the queue, and how many there were.
func TestSeesAChange(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		first, second := w.lead(st, "e", "db1"), w.lead(st, "e", "db2")
		w.start(Config{})
		pass(time.Minute)
		require.NoError(t, first.Withdraw(w.Context()))
		pass(3 * time.Second)
		e := w.election("e")
		require.Equal(t, "taking over", e.State)
		require.Nil(t, e.Leader)
		require.Equal(t, 3*time.Second, time.Since(e.Since))
		pass(9 * time.Second)
		require.Equal(t, "no leader", w.election("e").State)
		require.Equal(t, Critical, w.election("e").Level)
		require.NoError(t, second.Wait(w.Context()))
		_, err := second.Acknowledge(w.Context(), "db2")
		require.NoError(t, err)
		pass(time.Second)
		e = w.election("e")
		require.Equal(t, "led", e.State)
		require.False(t, e.AtLeast)
		require.Equal(t, 2, e.Changes)
		require.Equal(t, fmt.Sprint(second.Token()), e.Ballots[0].Token)
		page := w.get("/").Body.String()
		require.Contains(t, page, `<td class="gap">12 s</td>`)
		pass(time.Hour)
		require.Zero(t, w.election("e").Changes)
	})
}

// A leader that has gone, or come, while the store did not answer did so at a time that is not known.
func TestChangesInAnOutage(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		b := w.lead(st, "e", "db1")
		w.start(Config{})
		outage := func(during func()) {
			w.store.Faults().Cut()
			pass(time.Minute)
			during()
			w.store.Faults().Heal()
			pass(ttl)
		}
		outage(func() { require.NoError(t, b.Withdraw(w.Context())) })
		require.True(t, w.election("e").AtLeast)
		b = w.lead(st, "e", "db2")
		pass(time.Second)
		require.False(t, w.election("e").AtLeast)
		require.NotContains(t, w.get("/").Body.String(), `<td class="gap">1`, "it was longer")

		require.NoError(t, b.Withdraw(w.Context()))
		pass(time.Second)
		outage(func() { w.lead(st, "e", "db3") })
		require.True(t, w.election("e").AtLeast)
		require.NotContains(t, w.get("/").Body.String(), `<td class="gap">1`, "it was shorter")
	})
}

// What operators do is shown: a request to resign, a hold with its reason.
func TestShowsOperators(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		leader := w.lead(st, "e", "db1")
		w.start(Config{})
		require.NoError(t, st.RequestResignation(w.Context(), "e", leader.Token()))
		pass(readEvery)
		require.Equal(t, "asked to resign", w.election("e").State)
		hold, err := operate.NewHold(w.Context(), st, "e", "new disks (alice@db1)")
		require.NoError(t, err)
		pass(readEvery)
		require.Equal(t, "asked to resign", w.election("e").State)
		require.NoError(t, leader.Withdraw(w.Context()))
		pass(time.Hour)
		e := w.election("e")
		require.Equal(t, "held", e.State)
		require.Equal(t, "new disks (alice@db1)", e.Ballots[0].Value)
		require.True(t, e.Ballots[0].Holds)
		require.Contains(t, w.get("/metrics").Body.String(), `leadership_held{election="e"} 1`)
		require.NoError(t, hold.Release(w.Context()))
		pass(readEvery)
		require.Equal(t, "no leader", w.election("e").State)
		metrics := w.get("/metrics").Body.String()
		require.Contains(t, metrics, `leadership_held{election="e"} 0`)
		require.Contains(t, metrics, `leadership_ballots{election="e"} 0`)
	})
}

// In an outage all is stale, and says as of when it was right. /elections/NAME/leader fails a TTL after the last
// answer.
func TestOutage(t *testing.T) {
	virtual(t, func(w *world) {
		leader := w.lead(w.open(), "a/b c", "db1:5432")
		w.start(Config{Elections: []string{"a/b c"}})
		const path = "/elections/a/b%20c/leader?value=db1:5432"
		require.Equal(t, http.StatusOK, w.get(path).Code)
		require.Equal(t, http.StatusServiceUnavailable, w.get("/elections/a/b%20c/leader?value=db2").Code)
		w.store.Faults().Cut()
		pass(ttl / 2)
		require.Equal(t, http.StatusOK, w.get(path).Code)
		pass(ttl)
		require.Equal(t, http.StatusServiceUnavailable, w.get(path).Code)
		e := w.election("a/b c")
		require.Equal(t, "stale", e.State)
		require.Equal(t, "db1:5432", e.Leader.Value)
		w.store.Faults().Heal()
		pass(ttl)
		require.Equal(t, http.StatusOK, w.get(path).Code)
		require.NoError(t, leader.Withdraw(w.Context()))
		pass(time.Millisecond)
		require.Equal(t, http.StatusServiceUnavailable, w.get(path).Code)
		require.Equal(t, http.StatusServiceUnavailable, w.get("/elections/a/b%20c/leader?value=").Code, "no leader is not the empty value")
	})
}

// A store that denies is not said to be silent: what is wrong is the permission.
func TestDeniedLeaders(t *testing.T) {
	virtual(t, func(w *world) {
		w.lead(w.open(), "e", "db1")
		_, err := w.store.Elections(w.Context()) // as leadership serve does first: it has worked
		require.NoError(t, err)
		w.store.blind.Store(true)
		w.start(Config{Elections: []string{"e", "f"}})
		pass(2 * time.Minute)
		page := w.get("/").Body.String()
		require.Contains(t, page, "ask for the leader: permission denied")
		require.NotContains(t, page, "does not answer")
		w.store.blind.Store(false)
		pass(time.Minute)
		require.Equal(t, "led", w.election("e").State)
		require.NotContains(t, w.get("/").Body.String(), "denied")
	})
}

// A queue is read when its leader has changed, for each request once, and every 5 s while a browser looks; with many
// elections no more often than 50 times a second.
func TestHowOftenQueuesAreRead(t *testing.T) {
	virtualWith(t, time.Hour, func(w *world) {
		st := w.open()
		first := w.lead(st, "e", "db1")
		w.start(Config{})
		reads := func() int64 { pass(time.Millisecond); return w.store.queues.Swap(0) }
		require.EqualValues(t, 1, reads())
		pass(time.Hour)
		require.Zero(t, reads(), "no browser looks")
		w.get("/")
		require.EqualValues(t, 1, reads())
		w.get("/elections")
		require.Zero(t, reads(), "it was read just now")
		require.NoError(t, first.Withdraw(w.Context()))
		pass(time.Second)
		require.EqualValues(t, 1, reads())
		end := w.look()
		pass(time.Minute)
		require.InDelta(t, 12, reads(), 1)
		for i := range 269 {
			w.lead(st, fmt.Sprint("e", i), "x")
		}
		pass(listEvery + 7*time.Second)
		require.GreaterOrEqual(t, reads(), int64(269))
		pass(20 * time.Second)
		require.InDelta(t, 20*50, reads(), 100)
		end()
		pass(20 * time.Second)
		require.LessOrEqual(t, reads(), int64(270), "one round at most")
	})
}

// An election that is listed no more, and has no leader, is forgotten after a day, with its series.
func TestForgets(t *testing.T) {
	virtual(t, func(w *world) {
		b := w.lead(w.open(), "e", "db1")
		w.start(Config{})
		require.NoError(t, b.Withdraw(w.Context()))
		w.age(forgetAfter - time.Minute)
		pass(time.Minute - 2*listEvery)
		require.Equal(t, "no leader", w.election("e").State)
		pass(4 * listEvery)
		require.Equal(t, "[]\n", w.get("/elections").Body.String())
		require.NotContains(t, w.get("/metrics").Body.String(), `"e"`)
		require.Empty(t, w.log.String())
	})
}

// A server that runs for long keeps nothing of the elections that it has forgotten: no goroutine, and no name.
func TestForgetsAll(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		w.start(Config{})
		require.NoError(t, w.lead(st, "job", "x").Withdraw(w.Context())) // the session of st begins
		pass(listEvery)
		pass(2 * ttl)
		before := runtime.NumGoroutine()
		for i := range 20 {
			b := w.lead(st, fmt.Sprint("job", i), "x")
			pass(listEvery)
			require.NoError(t, b.Withdraw(w.Context()))
		}
		w.get("/")
		w.age(forgetAfter)
		pass(listEvery)
		w.get("/")
		pass(2 * ttl) // the store drops what it has observed
		require.Less(t, runtime.NumGoroutine(), before+10, "20 elections have gone")
		w.mu.Lock()
		defer w.mu.Unlock()
		require.Empty(t, w.elections)
		require.Empty(t, w.published.rows)
	})
}

// A store that does not list its elections any more is a problem of the page, which the log has once.
func TestListFails(t *testing.T) {
	virtual(t, func(w *world) {
		w.lead(w.open(), "e", "db1")
		w.start(Config{})
		w.store.Faults().Cut()
		pass(time.Minute)
		require.Contains(t, w.get("/").Body.String(), "the elections can&#39;t be listed, so new ones are not shown")
		w.store.Faults().Heal()
		pass(time.Minute)
		require.NotContains(t, w.get("/").Body.String(), "can&#39;t be listed")
		require.Equal(t, 1, strings.Count(w.log.String(), "level=WARN"), w.log.String())
		require.Equal(t, 1, strings.Count(w.log.String(), "it works again"), w.log.String())
	})
}

// A follower that has ended says why.
func TestFollowerEnds(t *testing.T) {
	virtual(t, func(w *world) {
		w.lead(w.open(), "e", "db1")
		w.start(Config{Elections: []string{"e"}})
		require.Equal(t, http.StatusOK, w.get("/elections/e/leader?value=db1").Code)
		w.Server.mu.Lock()
		f := w.Server.elections["e"].follower
		w.Server.mu.Unlock()
		f.Stop()
		pass(time.Second)
		e := w.election("e")
		require.Equal(t, "not followed", e.State)
		require.Equal(t, leadership.ErrStopped.Error(), e.Problems[0].Text)
		require.Equal(t, http.StatusServiceUnavailable, w.get("/elections/e/leader?value=db1").Code)
	})
}

// A queue that may not be read is a problem, and is not asked for all the time.
func TestQueueIsDenied(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		first := w.lead(st, "e", "db1")
		w.start(Config{})
		w.store.denied.Store(true)
		require.NoError(t, first.Withdraw(w.Context()))
		w.store.queues.Store(0)
		pass(time.Minute)
		require.LessOrEqual(t, w.store.queues.Load(), int64(13))
		require.Contains(t, w.get("/").Body.String(), "list the ballots: permission denied")
		require.Equal(t, "no leader", w.election("e").State)
		w.store.denied.Store(false)
		pass(readEvery)
		require.Len(t, w.election("e").Problems, 1)
	})
}

// A page is answered with the queue as it is then, if the store answers within a second.
func TestPageWaitsForTheQueue(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		w.lead(st, "e", "db1")
		w.start(Config{})
		w.lead(st, "e", "db2")
		pass(time.Minute)
		w.store.Faults().Delay(400 * time.Millisecond)
		require.Len(t, w.election("e").Ballots, 2)
		w.lead(st, "e", "db3")
		pass(time.Minute)
		w.store.Faults().Delay(1500 * time.Millisecond)
		require.Len(t, w.election("e").Ballots, 2, "it does not answer in time")
		pass(time.Minute)
		require.Len(t, w.election("e").Ballots, 3)
	})
}
