package serve

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/visible"
	"github.com/stretchr/testify/require"
)

// lines returns the changes in a file, for comparison: the election, the leader and the gap.
func lines(t *testing.T, path string) (list []string) {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	_, err = ReadHistory(file, func(c Change) error {
		text := c.Election + " -"
		if c.Leader != nil {
			text = c.Election + " " + c.Leader.Exact()
		}
		if c.Gap != nil {
			text += fmt.Sprint(" after ", *c.Gap)
		}
		if c.AtStart {
			text += " at start"
		}
		list = append(list, text)
		return nil
	})
	require.NoError(t, err)
	return list
}

// Each change is a line. A server that is started again goes on: what has not changed is no change, and since when it
// is so is known from the file.
func TestHistory(t *testing.T) {
	path := t.TempDir() + "/history"
	virtual(t, func(w *world) {
		st := w.open()
		w.start(Config{History: path})
		pass(time.Second)
		first := w.lead(st, "e", "\xff1")
		pass(listEvery)
		pass(time.Minute)
		require.NoError(t, first.Withdraw(w.Context()))
		pass(1500 * time.Millisecond)
		second := w.lead(st, "e", "db2")
		pass(time.Second)
		want := []string{"e \xff1 at start", "e -", "e db2 after 1.5"}
		require.Equal(t, want, lines(t, path))

		require.NoError(t, w.Server.Close())
		pass(time.Hour)
		w.start(Config{History: path})
		e := w.election("e")
		require.False(t, e.AtLeast)
		require.Empty(t, w.before, "the change is not that of an election that is found again later")
		require.Equal(t, time.Hour+time.Second, time.Since(e.Since).Round(time.Second))
		page := w.get("/").Body.String()
		require.Contains(t, page, `<td class="gap">1 s</td>`, "the page has the changes of the file")
		require.Equal(t, want, lines(t, path))

		require.NoError(t, w.Server.Close())
		require.NoError(t, second.Withdraw(w.Context()))
		w.lead(st, "e", "db3")
		w.start(Config{History: path})
		require.Equal(t, append(want, "e db3 at start"), lines(t, path))
		require.NoError(t, w.Server.Close())
		w.start(Config{History: path})
		require.True(t, w.election("e").AtLeast, "the file says so")
	})
}

// A last line that was not written to its end is passed over, and what comes after it is not lost.
func TestTornHistory(t *testing.T) {
	path := t.TempDir() + "/history"
	line, err := json.Marshal(Change{Time: noon, Election: "old"})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(append(line, '\n'), line[:len(line)/2]...), 0o600))
	virtual(t, func(w *world) {
		w.lead(w.open(), "e", "db1")
		w.start(Config{History: path})
		pass(time.Second)
		require.Equal(t, []string{"old -", "e db1 at start"}, lines(t, path))
	})
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	torn, err := ReadHistory(file, func(Change) error { return nil })
	require.NoError(t, err)
	require.Equal(t, 1, torn)
}

// A disk that is full is said once in the log, and on the page while it lasts. The server goes on.
func TestHistoryOnAFullDisk(t *testing.T) {
	virtual(t, func(w *world) {
		st := w.open()
		b := w.lead(st, "e", "db1")
		w.start(Config{History: "/dev/full"})
		pass(time.Second)
		require.NoError(t, b.Withdraw(w.Context()))
		pass(time.Second)
		page := w.get("/").Body.String()
		require.Contains(t, page, "the history has a gap: write /dev/full: no space left on device")
		require.Equal(t, "no leader", w.election("e").State)
		require.Equal(t, 1, strings.Count(w.log.String(), "\n"), w.log.String())
		w.troubles.note("the history has a gap", nil)
		require.NotContains(t, w.get("/").Body.String(), "the history has a gap")
	})
}

// The rest of a line that was written in part is separated from the next one.
func TestHistoryAfterAPartialWrite(t *testing.T) {
	path := t.TempDir() + "/history"
	h, _, _, err := openHistory(path, "", func(string, error) {})
	require.NoError(t, err)
	h.add(Change{Election: "a"})
	require.NoError(t, h.end())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, text[:len(text)-4], 0o600))
	h, recent, _, err := openHistory(path, "", func(string, error) {})
	require.NoError(t, err)
	require.Empty(t, recent)
	h.add(Change{Election: "b"})
	h.add(Change{Election: "c"})
	require.NoError(t, h.end())
	require.Equal(t, []string{"b -", "c -"}, lines(t, path))
}

// Of a long history the last changes are kept in memory, and the last one of each election.
func TestLongHistory(t *testing.T) {
	path := t.TempDir() + "/history"
	var text strings.Builder
	for i := range 5 * mostChanges {
		fmt.Fprintf(&text, `{"election":"e%d","leader":{"value":"x","revision":%d}}`+"\n", i, i)
	}
	require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
	h, recent, last, err := openHistory(path, "", func(string, error) {})
	require.NoError(t, err)
	require.Len(t, recent, mostChanges)
	require.Equal(t, "e4999", recent[mostChanges-1].Election)
	require.Len(t, last, 5*mostChanges)
	require.NoError(t, h.end())
}

// A file that was removed or renamed is made again with the next change.
func TestHistoryIsRemoved(t *testing.T) {
	path := t.TempDir() + "/history"
	virtual(t, func(w *world) {
		b := w.lead(w.open(), "e", "db1")
		w.start(Config{History: path})
		pass(time.Second)
		require.NoError(t, os.Rename(path, path+".1"))
		require.NoError(t, b.Withdraw(w.Context()))
		pass(time.Second)
		require.Equal(t, []string{"e db1 at start"}, lines(t, path+".1"))
		require.Equal(t, []string{"e -"}, lines(t, path))
	})
}

// The history of another store, or of one that was emptied, says nothing of this one, also if the revision is the same.
func TestHistoryOfAnotherStore(t *testing.T) {
	for _, other := range []Change{
		{Store: "memory://other", Leader: &ChangeLeader{visible.InJSON("db1"), 1}},
		{Store: "", Leader: &ChangeLeader{visible.InJSON("db2"), 1}},
	} {
		path := t.TempDir() + "/history"
		virtual(t, func(w *world) {
			w.lead(w.open(), "e", "db1")
			w.start(Config{})
			revision, err := strconv.ParseUint(w.election("e").Leader.Revision, 10, 64)
			require.NoError(t, err)
			require.NoError(t, w.Server.Close())
			other.Election, other.Time, other.Leader.Revision = "e", time.Now().Add(-time.Hour), revision
			if other.Store == "" {
				other.Store = w.Address
			}
			line, err := json.Marshal(other)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(path, append(line, '\n'), 0o600))
			w.start(Config{History: path})
			e := w.election("e")
			require.True(t, e.AtLeast)
			require.Less(t, time.Since(e.Since), time.Minute)
			require.Len(t, lines(t, path), 2)
		})
	}
}

// Changes for which the disk is too slow are counted, in the log and on the page.
func TestHistoryOnASlowDisk(t *testing.T) {
	path := t.TempDir() + "/fifo"
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	r, err := os.Open(path)
	require.NoError(t, err)
	told := make(chan error, 10*mostChanges)
	h := &history{path: path, file: file, lines: make(chan Change, 1), done: make(chan struct{}), tell: func(_ string, err error) { told <- err }}
	go h.run()
	long := Change{Election: strings.Repeat("e", 1<<17)} // more than a pipe holds
	for h.lost.Load() == 0 {
		h.add(long)
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	require.ErrorContains(t, <-told, "the disk does not keep up: ")
	for err := error(os.ErrInvalid); err != nil; err = <-told { // until the disk keeps up
		h.add(Change{Election: "e"})
	}
	require.NoError(t, h.end())
	require.NoError(t, r.Close())
}
