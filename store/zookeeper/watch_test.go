package zookeeper

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// armed registers a watch whose read has been answered.
func (w *watches) armed(path string, entry bool) *watch {
	x, _, _ := w.add(path, entry)
	w.arm(x)
	return x
}

func (w *watches) fires(path string, event zk.EventType) { w.event(zk.Event{Type: event, Path: path}) }

func TestWatchTellsTheEndOfAnEntry(t *testing.T) {
	w := &watches{number: 3}
	first, second := w.watching(w.armed("/e", true), stands), w.watching(w.armed("/e", true), stands)
	leader := w.watching(w.armed("/ack", false), engine.State{})
	require.EqualValues(t, 3, first.Stream)
	second.Stop()
	w.fires("/e", zk.EventNodeDeleted)
	w.fires("/ack", zk.EventNodeDeleted)
	first.Stop()
	require.Equal(t, []engine.News{{State: &stands}, deleted}, first.told)
	require.Equal(t, []engine.News{{State: &stands}}, second.told)
	require.Equal(t, over, leader.told[1], "another acknowledgement may stand by now")
	require.Empty(t, w.set)
}

// A state that was read before the entry was deleted is not reported after the deletion.
func TestWatchFiresBeforeItIsTold(t *testing.T) {
	w := &watches{}
	entry, changed := w.armed("/e", true), w.armed("/changed", true)
	w.fires("/e", zk.EventNodeDeleted)
	w.fires("/changed", zk.EventNodeDataChanged)
	require.Equal(t, []engine.News{deleted}, w.watching(entry, stands).told)
	require.Equal(t, []engine.News{{State: &stands}, over}, w.watching(changed, stands).told)
}

// The server is asked for a watch on a node once, until the node changes: even if no watch of the engine's is left, and
// not if the event came before the answer.
func TestServerHasAWatch(t *testing.T) {
	w := &watches{}
	has := func() bool {
		x, armed, _ := w.add("/e", true)
		w.remove(x)
		return armed
	}
	require.False(t, has())
	w.remove(w.armed("/e", true))
	require.True(t, has())
	w.fires("/e", zk.EventNodeDataChanged)
	require.False(t, has(), "it has fired")

	early, _, _ := w.add("/e", true)
	w.fires("/e", zk.EventNodeDataChanged)
	other, _, _ := w.add("/e", true)
	w.arm(early)
	require.False(t, has(), "it had fired before the answer came")
	w.remove(other)
}

// The state that was read when a watch was set is used once, and only as long as the watch and its connection last.
func TestWatchKeepsWhatWasRead(t *testing.T) {
	w := &watches{}
	read := node{stat: &zk.Stat{Mzxid: 1}}
	keep := func() { w.keep(w.armed("/e", true), read) }
	kept := func() bool {
		x, _, n := w.add("/e", true)
		w.remove(x)
		return n != nil && n.stat == read.stat
	}
	require.False(t, kept())
	keep()
	require.Empty(t, w.set["/e"].list, "it was not asked for")
	require.True(t, kept())
	require.False(t, kept(), "twice")
	keep()
	w.fires("/e", zk.EventNodeDataChanged)
	require.False(t, kept(), "it has fired")
	x := w.armed("/e", true)
	w.fires("/e", zk.EventNodeDataChanged)
	w.keep(x, read)
	require.False(t, kept(), "it had fired before")
	keep()
	w.end()
	require.False(t, kept())
}

// The end of a connection ends all watches, also those whose read has not been answered, and those that come later.
// Confirmations are told to the watches on leaders.
func TestWatchesEndWithTheConnection(t *testing.T) {
	w := &watches{}
	before := w.watching(w.armed("/e", true), stands)
	unread, _, _ := w.add("/e", true)
	leader := w.watching(w.armed("/ack", false), engine.State{})
	asOf := time.Now()
	w.confirmed(asOf)
	w.end()
	require.Equal(t, []engine.News{{State: &stands}, over}, before.told, "an entry's is not confirmed")
	require.Equal(t, []engine.News{{State: &engine.State{}}, {AsOf: asOf}, over}, leader.told)
	late, _, _ := w.add("/e", true)
	for _, x := range []*watch{unread, late} {
		require.Equal(t, []engine.News{{State: &stands}, over}, w.watching(x, stands).told)
	}
}

// The watches of a connection are over when requests can use the next one: they tell nothing any more. Connections that
// no request could use change nothing of that.
func TestWatchesAreOverOnTheNextConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedServer{ttl: scriptedTTL, mute: func(dial int, _ int32) bool { return dial == 2 }}
		d := s.driver(t)
		s.session(t, d)
		l, err := d.up(t.Context())
		require.NoError(t, err)
		var over atomic.Bool
		x, _, _ := l.watches.add("/node", true)
		l.watches.begin(x, engine.News{State: &engine.State{Token: 1}}, func(n engine.News) {
			if n.Over {
				over.Store(true)
			}
		})
		l.wire.end(errLeft)
		synctest.Wait()
		require.False(t, over.Load(), "what it has missed can't be read yet")
		time.Sleep(scriptedTTL)
		s.session(t, d)
		require.True(t, over.Load())
		require.Len(t, s.asked, 3)
	})
}
