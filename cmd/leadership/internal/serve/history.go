package serve

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-leadership/leadership/internal/visible"
	"github.com/go-leadership/leadership/store"
)

// Change is a change of a leader, as a line of the history has it. AtStart: the server saw it when it began to follow
// the election, so it happened before.
type Change struct {
	Time     time.Time     `json:"time"`
	Store    string        `json:"store"`
	Election string        `json:"election"`
	Leader   *ChangeLeader `json:"leader"`                // nil: there is none
	Gap      *float64      `json:"gap_seconds,omitempty"` // without a leader before this one, if the server saw that
	AtStart  bool          `json:"at_start,omitempty"`

	seq uint64 // of the server
}

// ChangeLeader is the leader of a change.
type ChangeLeader struct {
	visible.JSON
	Revision uint64 `json:"revision"`
}

// Exact returns the bytes of the value.
func (l *ChangeLeader) Exact() string {
	if exact, err := base64.StdEncoding.DecodeString(l.Bytes); err == nil && l.Bytes != "" {
		return string(exact)
	}
	return l.Value
}

// is reports whether a leader is that of the change. A revision is never used again, unless the store was emptied.
func (c Change) is(l store.Leader) bool {
	if c.Leader == nil {
		return l.Revision == 0
	}
	return c.Leader.Revision == l.Revision && c.Leader.Exact() == l.Value
}

// ReadHistory reads the changes in a file. A line that is none is passed over: the last one might be torn, since the
// disk was full or the machine crashed while it was written. It returns how many there were.
func ReadHistory(r io.Reader, each func(Change) error) (torn int, err error) {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		var c Change
		switch bad := json.Unmarshal(line, &c); {
		case len(line) <= 1:
		case bad != nil || c.Election == "":
			torn++
		default:
			if err := each(c); err != nil {
				return torn, err
			}
		}
		if errors.Is(err, io.EOF) {
			return torn, nil
		}
		if err != nil {
			return torn, err
		}
	}
}

// history appends changes to a file. The server goes on if that fails: it says so once in the log, and on the page
// until it works again. A goroutine writes, since a disk can hang.
type history struct {
	path  string
	file  *os.File
	lines chan Change  // closed by end
	lost  atomic.Int64 // changes for which lines had no room
	done  chan struct{}
	tell  func(what string, err error) // what the last attempt to write came to
	torn  bool                         // the last line is; only the goroutine uses it
}

// openHistory opens a file, which is made if there is none, and reads its last changes, and the last one of each
// election. Changes of a store at another address are passed over: its elections may have the same names and revisions.
func openHistory(path, address string, tell func(string, error)) (h *history, recent []Change, last map[string]Change, err error) {
	file, err := openFile(path)
	if err != nil {
		return nil, nil, nil, err
	}
	h = &history{path: path, file: file, lines: make(chan Change, 4*mostChanges), done: make(chan struct{}), tell: tell}
	last = map[string]Change{}
	if err = h.read(func(c Change) error {
		if c.Store != address {
			return nil
		}
		last[c.Election] = c
		if recent = append(recent, c); len(recent) > 2*mostChanges {
			recent = append(recent[:0], recent[len(recent)-mostChanges:]...)
		}
		return nil
	}); err != nil {
		return nil, nil, nil, errors.Join(err, file.Close())
	}
	go h.run()
	return h, recent[max(0, len(recent)-mostChanges):], last, nil
}

func openFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o644)
}

// read reads the file, if it is one and no pipe, and notes whether it ends without a line break.
func (h *history) read(each func(Change) error) error {
	info, err := h.file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return err
	}
	if _, err = ReadHistory(h.file, each); err != nil {
		return err
	}
	var end [1]byte
	_, err = h.file.ReadAt(end[:], info.Size()-1)
	h.torn = end[0] != '\n'
	return err
}

// add has a change written soon. It does not block: if the disk does not keep up, changes are lost.
func (h *history) add(c Change) {
	select {
	case h.lines <- c:
	default:
		h.lost.Add(1)
	}
}

func (h *history) run() {
	defer close(h.done)
	for c := range h.lines {
		line, err := json.Marshal(c)
		if err == nil {
			err = h.follow()
		}
		if err == nil {
			err = h.write(append(line, '\n'))
		}
		if lost := h.lost.Swap(0); err == nil && lost > 0 {
			err = fmt.Errorf("the disk does not keep up: %d changes are lost", lost)
		}
		h.tell("the history has a gap", err)
	}
}

// follow opens the file anew if it was removed or renamed: what is written to the old one would be lost.
func (h *history) follow() error {
	now, err := os.Stat(h.path)
	if err == nil {
		old, err := h.file.Stat()
		if err == nil && os.SameFile(old, now) {
			return nil
		}
	}
	file, err := openFile(h.path)
	if err != nil {
		return err
	}
	_ = h.file.Close()
	h.file, h.torn = file, false
	return nil
}

// write writes a line. If the last write has failed, a line break comes first: readers pass over the torn line.
func (h *history) write(line []byte) error {
	if h.torn {
		line = append([]byte{'\n'}, line...)
	}
	n, err := h.file.Write(line)
	if n > 0 {
		h.torn = n < len(line)
	}
	return err
}

// end writes what is left, and closes the file.
func (h *history) end() error {
	close(h.lines)
	<-h.done
	return h.file.Close()
}
