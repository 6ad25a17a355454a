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

// watching is a watch of the engine, with what it has reported.
type watching struct {
	engine.Watch
	told []engine.News
}

func (w *watches) watching(x *watch, state engine.State) *watching {
	told := &watching{}
	told.Watch = w.begin(x, state, func(n engine.News) { told.told = append(told.told, n) })
	return told
}

var (
	stands  = engine.State{Token: 7}
	deleted = engine.News{State: &engine.State{}, Over: true}
	over    = engine.News{Over: true}
)

// on returns the key of a node that exists.
func on(path string) watchKey { return watchKey{path, false} }

func TestWatchTellsTheEndOfAnEntry(t *testing.T) {
	w := &watches{epoch: 3}
	first, second := w.watching(w.add(on("/e"), true), stands), w.watching(w.add(on("/e"), true), stands)
	leader := w.watching(w.add(on("/ack"), false), engine.State{})
	absent := w.watching(w.add(watchKey{"/absent", true}, false), engine.State{})
	require.EqualValues(t, 3, first.Stream)
	second.Stop()
	require.True(t, w.wanted(on("/e")), "by the first")
	w.event(zk.Event{Type: zk.EventNodeDeleted, Path: "/e"})
	w.event(zk.Event{Type: zk.EventNodeDeleted, Path: "/ack"})
	w.event(zk.Event{Type: zk.EventNodeCreated, Path: "/absent"})
	w.event(zk.Event{Type: zk.EventSession})
	first.Stop()
	require.Equal(t, []engine.News{{State: &stands}, deleted}, first.told)
	require.Equal(t, []engine.News{{State: &stands}}, second.told)
	require.Equal(t, over, leader.told[1], "another acknowledgement may stand by now")
	require.Equal(t, over, absent.told[1])
	require.Empty(t, w.set)
	require.False(t, w.wanted(on("/e")))
}

// A state that was read before the entry was deleted is not reported after the deletion.
func TestWatchFiresBeforeItIsTold(t *testing.T) {
	w := &watches{epoch: 3}
	entry, changed := w.add(on("/e"), true), w.add(on("/changed"), true)
	w.event(zk.Event{Type: zk.EventNodeDeleted, Path: "/e"})
	w.event(zk.Event{Type: zk.EventNodeDataChanged, Path: "/changed"})
	require.Equal(t, []engine.News{deleted}, w.watching(entry, stands).told)
	require.Equal(t, []engine.News{{State: &stands}, over}, w.watching(changed, stands).told)
}

// The state that was read when a watch was set is used once, and only as long as the watch and its connection last.
func TestWatchKeepsWhatWasRead(t *testing.T) {
	w := &watches{epoch: 3}
	read := node{stat: &zk.Stat{Czxid: 7}}
	kept := func() bool { _, n, ok := w.kept("/e"); return ok && n.stat == read.stat }
	x := w.add(on("/e"), true)
	require.False(t, kept())
	w.keep(x, read)
	require.True(t, kept())
	require.False(t, kept(), "twice")
	w.keep(x, read)
	w.keep(w.add(on("/e"), true), read)
	require.Len(t, w.set[on("/e")], 1, "the one before was not asked for")
	require.True(t, kept())
	w.keep(w.add(on("/e"), true), read)
	w.reconnected()
	require.False(t, kept())
	w.keep(x, read)
	require.False(t, kept(), "it was set on another connection")
	x = w.add(on("/e"), true)
	w.keep(x, read)
	w.event(zk.Event{Type: zk.EventNodeDataChanged, Path: "/e"})
	require.False(t, kept(), "it has fired")

	callers := &watches{}
	callers.keep(callers.add(on("/e"), true), read)
	_, _, ok := callers.kept("/e")
	require.False(t, ok, "a caller's connection has no order")
	require.Empty(t, callers.set)
}

// A reconnection ends all watches, also those whose read has not been answered. Confirmations are reported to the
// others.
func TestWatchAfterAReconnection(t *testing.T) {
	w := &watches{epoch: 3}
	before, unread := w.watching(w.add(on("/e"), true), stands), w.add(on("/e"), true)
	leader := w.watching(w.add(on("/ack"), false), engine.State{})
	asOf := time.Now()
	w.confirmed(asOf)
	w.reconnected()
	require.Equal(t, []engine.News{{State: &stands}, over}, before.told, "an entry's is not confirmed")
	require.Equal(t, []engine.News{{State: &engine.State{}}, {AsOf: asOf}, over}, leader.told)
	require.Equal(t, []engine.News{{State: &stands}, over}, w.watching(unread, stands).told, "it was sent before, or lost")

	after := w.watching(w.add(on("/e"), true), stands)
	require.EqualValues(t, 4, after.Stream)
	w.event(zk.Event{Type: zk.EventNodeDeleted, Path: "/e"})
	require.Equal(t, deleted, after.told[1])
	require.Len(t, before.told, 2)
}

// callers are the watches of a caller's connection, and the lifecycle of their goroutines.
func callers() (*watches, *adapter.Lifecycle) {
	lifecycle := adapter.NewLifecycle("zookeeper", false, "")
	return &watches{start: lifecycle.Go, done: lifecycle.Background.Done()}, lifecycle
}

// addRelayed sets a watch on a caller's connection, and returns the library's channel.
func (w *watches) addRelayed(path string) (*watch, chan zk.Event) {
	x, ch := w.add(on(path), false), make(chan zk.Event, 1)
	w.addRelay(on(path), ch)
	return x, ch
}

// On a caller's connection, a confirmation comes after what the library has reported before.
func TestRelayIsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, lifecycle := callers()
		x, _ := w.addRelayed("/e")
		told := w.watching(x, stands)
		w.confirmed(time.Now())
		synctest.Wait()
		require.Len(t, told.told, 2)
		for range 100 { // whichever it takes first
			x, ch := w.addRelayed("/x")
			ch <- zk.Event{Type: zk.EventNodeDeleted, Path: "/x"}
			told := w.watching(x, stands)
			w.confirmed(time.Now())
			synctest.Wait()
			require.Equal(t, over, told.told[len(told.told)-1])
			require.Less(t, len(told.told), 3)
		}
		lifecycle.Stop()
		lifecycle.Wait()
	})
}

// On a caller's connection, a node has one relay for any number of watchers. It lasts until the library's watch has
// fired: the watch can't be taken back, and another one would add to it. It has a goroutine only while there are
// watchers.
func TestRelayIsUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, lifecycle := callers()
		x, ch := w.addRelayed("/e")
		first, second := w.watching(x, stands), w.watching(w.add(on("/e"), false), stands)
		w.addRelay(on("/e"), make(chan zk.Event, 1)) // of a read that was under way at once
		first.Stop()
		w.confirmed(time.Now())
		synctest.Wait()
		require.Len(t, first.told, 1)
		require.Len(t, second.told, 2)
		second.Stop()
		lifecycle.Wait() // for the goroutine
		w.confirmed(time.Now())

		x = w.add(on("/e"), false)
		require.True(t, w.relayed(on("/e")))
		third := w.watching(x, stands)
		ch <- zk.Event{Type: zk.EventNodeDeleted, Path: "/e"}
		lifecycle.Wait()
		require.Equal(t, over, third.told[len(third.told)-1])
		require.Empty(t, w.set)
		require.False(t, w.relayed(on("/e")))

		lifecycle.Stop()
	})
}

// The library's watch fires while the engine has none. The next read sets another watch, and a node that is not watched
// again is forgotten.
func TestRelayFiresWithoutAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, lifecycle := callers()
		for _, stopped := range []bool{false, true} { // whether the goroutine has ended before
			for range 100 { // which of the two it hears of first
				x, ch := w.addRelayed("/e")
				w.remove(x)
				if stopped {
					lifecycle.Wait()
				}
				ch <- zk.Event{Type: zk.EventNodeDeleted, Path: "/e"}
				lifecycle.Wait()
				require.False(t, w.relayed(on("/e")))
				require.Empty(t, w.relays)
			}
		}
		one, two := w.add(on("/e"), false), w.add(on("/e"), false) // two reads whose callers have left before the answers
		w.remove(one)
		w.remove(two)
		events := make(chan zk.Event, 1)
		w.addRelay(on("/e"), events)
		require.True(t, w.relayed(on("/e")))
		require.False(t, w.relays[on("/e")].runs)
		events <- zk.Event{Type: zk.EventNodeDeleted, Path: "/e"}
		for _, fired := range []bool{false, true} { // the watch of a read that was under way when the first was taken back
			x, ch := w.addRelayed("/e")
			w.remove(x)
			lifecycle.Wait()
			next, second := w.watching(w.add(on("/e"), false), stands), make(chan zk.Event, 1)
			if fired {
				ch <- zk.Event{Type: zk.EventNodeDeleted, Path: "/e"}
				w.addRelay(on("/e"), second)
				second <- zk.Event{Type: zk.EventNodeDeleted, Path: "/e"}
			} else {
				w.addRelay(on("/e"), second)
				ch <- zk.Event{Type: zk.EventNodeDeleted, Path: "/e"}
			}
			lifecycle.Wait()
			require.Equal(t, []engine.News{{State: &stands}, over}, next.told)
			require.Empty(t, w.relays)
		}
		x, ch := w.addRelayed("/gone")
		w.remove(x)
		lifecycle.Wait()
		ch <- zk.Event{Type: zk.EventNodeDeleted, Path: "/gone"}
		w.addRelayed("/e")
		w.confirmed(time.Now())
		require.Len(t, w.relays, 1, "a ballot's node is forgotten with the next confirmation")

		x = w.add(on("/late"), false)
		w.remove(x) // before the answer to its read
		w.addRelay(on("/late"), make(chan zk.Event, 1))
		require.False(t, w.relays[on("/late")].runs)
		lifecycle.Stop()
		lifecycle.Wait()
	})
}

// A watch that is set just after the last one was taken back has a goroutine.
func TestRelayGoesOnForTheNextWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, lifecycle := callers()
		for range 100 { // whether the goroutine hears of the one before the other or not
			x, ch := w.addRelayed("/e")
			w.remove(x)
			next := w.add(on("/e"), false)
			require.True(t, w.relayed(on("/e")))
			told := w.watching(next, stands)
			ch <- zk.Event{Type: zk.EventNodeDataChanged, Path: "/e"}
			lifecycle.Wait()
			require.Equal(t, []engine.News{{State: &stands}, over}, told.told)
		}
		lifecycle.Stop()
	})
}
