package zookeeper

import (
	"testing"
	"time"

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
	told.Watch = w.begin(x, engine.News{State: &state}, func(n engine.News) { told.told = append(told.told, n) })
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
