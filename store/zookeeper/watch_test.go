package zookeeper

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// watching is a watch of the engine and what it has told.
type watching struct {
	engine.Watch
	told []engine.News
}

func (w *watches) watching(entry *watch, unique bool, state engine.State) *watching {
	told := &watching{}
	told.Watch = w.begin(entry, unique, state, func(n engine.News) { told.told = append(told.told, n) })
	return told
}

func (w *watches) setNew(t *testing.T, path string) *watch {
	t.Helper()
	entry, mine := w.join(watchKey{path, false}, false)
	require.True(t, mine)
	w.answered([]watchKey{{path, false}}, false)
	w.settle(watchKey{path, false}, entry, nil, true)
	return entry
}

var (
	stands  = engine.State{Token: 7}
	deleted = engine.News{State: &engine.State{}, Over: true}
	over    = engine.News{Over: true}
)

func TestWatchTellsTheEndOfAnEntry(t *testing.T) {
	w := &watches{epoch: 3}
	entry, ack := w.setNew(t, "/e"), w.setNew(t, "/ack")
	first, second := w.watching(entry, true, stands), w.watching(entry, true, stands)
	leader := w.watching(ack, false, engine.State{})
	require.EqualValues(t, 3, first.Stream)
	second.Stop()
	w.event(zk.Event{Type: zk.EventNodeDeleted, Path: "/e"})
	w.event(zk.Event{Type: zk.EventNodeDeleted, Path: "/ack"})
	require.Equal(t, []engine.News{{State: &stands}, deleted}, first.told)
	require.Equal(t, []engine.News{{State: &stands}}, second.told)
	require.Equal(t, over, leader.told[1], "another acknowledgement may stand by now")
	require.Empty(t, w.set)
}

// What was read before the entry was deleted is not told after that.
func TestWatchFiresBeforeItIsTold(t *testing.T) {
	w := &watches{epoch: 3}
	entry, changed := w.setNew(t, "/e"), w.setNew(t, "/changed")
	w.event(zk.Event{Type: zk.EventNodeDeleted, Path: "/e"})
	w.event(zk.Event{Type: zk.EventNodeDataChanged, Path: "/changed"})
	require.Equal(t, []engine.News{deleted}, w.watching(entry, true, stands).told)
	require.Equal(t, []engine.News{{State: &stands}, over}, w.watching(changed, true, stands).told)
}

// What was read when a watch was set is used once, and only as long as the watch and its connection last.
func TestWatchKeepsWhatWasRead(t *testing.T) {
	w := &watches{epoch: 3}
	key := watchKey{"/e", false}
	read := node{stat: &zk.Stat{Czxid: 7}}
	kept := func() bool { _, n, ok := w.kept(key); return ok && n.stat == read.stat }
	entry := w.setNew(t, "/e")
	require.False(t, kept())
	w.keep(entry, read)
	require.True(t, kept())
	require.False(t, kept(), "twice")
	w.keep(entry, read)
	w.reconnected()
	require.False(t, kept())
	w.keep(entry, read)
	require.False(t, kept(), "it was set on another connection")
	w.event(zk.Event{Type: zk.EventNodeDataChanged, Path: "/e"})
	entry = w.setNew(t, "/e")
	w.keep(entry, read)
	w.event(zk.Event{Type: zk.EventNodeDataChanged, Path: "/e"})
	require.False(t, kept(), "it has fired")

	callers := &watches{}
	callers.keep(callers.setNew(t, "/e"), read)
	_, _, ok := callers.kept(key)
	require.False(t, ok, "a caller's connection has no order")
}

// A reconnection ends the engine's watches. Those that the library sets again are confirmed, and have an order, once the
// server has said that it has set them on the present connection, however long that takes.
func TestWatchAfterAReconnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watches{epoch: 3}
		entry := w.setNew(t, "/e")
		before := w.watching(entry, true, stands)
		asOf := time.Now()
		w.confirmed(asOf)
		w.reconnected()
		require.Equal(t, []engine.News{{State: &stands}, {AsOf: asOf}, over}, before.told)

		joined, mine := w.join(watchKey{"/e", false}, false)
		require.False(t, mine, "the library sets it again")
		after, fresh := w.watching(joined, true, stands), w.watching(w.setNew(t, "/new"), true, stands)
		require.Zero(t, after.Stream)
		require.EqualValues(t, 4, fresh.Stream)
		time.Sleep(time.Hour)
		w.confirmed(time.Now())
		require.Len(t, after.told, 1)
		require.Len(t, fresh.told, 2)

		sent := time.Now()
		time.Sleep(time.Second)
		w.answered([]watchKey{{"/e", true}, {"/other", false}}, true)
		w.confirmed(time.Now())
		require.Len(t, after.told, 1, "these are others")
		w.answered([]watchKey{{"/other", false}, {"/e", false}, {"/new", false}}, true)
		w.confirmed(sent)
		require.Len(t, after.told, 1, "a change before it was set may have been missed")
		require.Len(t, fresh.told, 4, "it was set before")
		w.confirmed(time.Now())
		require.Equal(t, engine.News{AsOf: time.Now()}, after.told[1])
		require.EqualValues(t, 4, w.watching(joined, true, stands).Stream)
		w.event(zk.Event{Type: zk.EventNodeDeleted, Path: "/e"})
		require.Equal(t, deleted, after.told[2])
	})
}

// callers is a driver with a caller's connection, as far as its watches are concerned.
func callers() *driver {
	d := &driver{life: adapter.NewLife("zookeeper", false, "")}
	d.watches.relay = func(entry *watch, quit <-chan struct{}) { d.life.Go(func() { d.relay(entry, quit) }) }
	return d
}

// setCallers sets a watch on a caller's connection, and returns the library's channel.
func (w *watches) setCallers(path string) (*watch, chan zk.Event) {
	entry, _ := w.join(watchKey{path, false}, true)
	ch := make(chan zk.Event, 1)
	w.settle(watchKey{path, false}, entry, ch, true)
	return entry, ch
}

// On a caller's connection, a confirmation comes behind what the library has told before.
func TestRelayIsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := callers()
		entry, _ := d.watches.setCallers("/e")
		told := d.watches.watching(entry, true, stands)
		d.watches.confirmed(time.Now())
		synctest.Wait()
		require.Len(t, told.told, 2)
		for range 100 { // whichever it takes first
			entry, ch := d.watches.setCallers("/x")
			ch <- zk.Event{Type: zk.EventNodeDeleted, Path: "/x"}
			told := d.watches.watching(entry, true, stands)
			d.watches.confirmed(time.Now())
			synctest.Wait()
			require.Equal(t, []engine.News{{State: &stands}, deleted}, told.told)
		}
		d.life.Stop()
		d.life.Wait()
	})
}

// A watch of a caller's connection has a goroutine while there is something to tell, and no longer. It is used again if
// it has not fired, and forgotten if it has.
func TestRelayEndsWithTheLastWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := callers()
		entry, ch := d.watches.setCallers("/e")
		first, second := d.watches.watching(entry, true, stands), d.watches.watching(entry, true, stands)
		first.Stop()
		synctest.Wait()
		d.watches.confirmed(time.Now())
		synctest.Wait()
		require.Len(t, second.told, 2, "it is still relayed")
		second.Stop()
		d.life.Wait()

		entry, mine := d.watches.join(watchKey{"/e", false}, true)
		require.False(t, mine)
		third := d.watches.watching(entry, true, stands)
		third.Stop()
		d.life.Wait()
		ch <- zk.Event{Type: zk.EventNodeDeleted, Path: "/e"}
		fourth := d.watches.watching(entry, true, stands)
		d.life.Wait()
		require.Equal(t, []engine.News{{State: &stands}, deleted}, fourth.told)
		require.Empty(t, d.watches.set)

		entry, ch = d.watches.setCallers("/x")
		d.watches.confirmed(time.Now())
		require.Len(t, d.watches.set, 1)
		ch <- zk.Event{Type: zk.EventNodeDeleted, Path: "/x"}
		d.watches.confirmed(time.Now())
		require.Empty(t, d.watches.set)
		require.True(t, entry.fired)
	})
}
