package file

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/go-leadership/leadership/store"
)

// hub is the process's inotify instance, shared by all its stores: a user has 128 by default. The kernel queues an
// event before the call that causes it returns. So when the queue has been read, all earlier changes have been
// reported.
type hub struct {
	users int // guarded by hubs: the stores that are open
	file  *os.File
	conn  syscall.RawConn
	find  func(dir string) (fd int, err error) // lookup, except in tests
	done  chan struct{}                        // closed when run has returned

	reading sync.Mutex     // held while events are read and reported, so that they come in order
	buf     [16 << 10]byte // guarded by reading
	reads   atomic.Uint64  // that have begun; written with reading locked

	changing sync.Mutex // held while the kernel's watches are changed; taken before mu

	mu    sync.Mutex                  // never held over a system call: each event takes it, in front of all stores
	nodes map[int32]map[*sub]struct{} // guarded by mu: what is watched, by the number of its watch
}

// sub is one watch of one directory.
type sub struct {
	node int32
	mask uint32
	name string            // of an entry of the directory, if only events of that count
	tell func(mask uint32) // called with reading locked
}

var (
	hubs sync.Mutex // guards the hub; held while it is opened and closed
	one  *hub       // nil while no store is open
)

// openHub returns the process's hub. The caller closes it.
func openHub() (*hub, error) {
	hubs.Lock()
	defer hubs.Unlock()
	if one == nil {
		fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
		if errors.Is(err, syscall.EMFILE) {
			err = fmt.Errorf("%w; the user has too many inotify instances, or the process too many open files: "+
				"raise fs.inotify.max_user_instances with sysctl, or ulimit -n", err)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: inotify_init: %w", store.ErrUnavailable, err)
		}
		h := &hub{file: os.NewFile(uintptr(fd), "inotify"), find: lookup, done: make(chan struct{}), nodes: map[int32]map[*sub]struct{}{}}
		if h.conn, err = h.file.SyscallConn(); err != nil {
			return nil, errors.Join(err, h.file.Close())
		}
		go h.run() // close waits for it
		one = h
	}
	one.users++
	return one, nil
}

// close closes the hub if no store uses it any more.
func (h *hub) close() error {
	hubs.Lock()
	defer hubs.Unlock()
	if h.users--; h.users > 0 {
		return nil
	}
	one = nil
	err := h.file.Close()
	<-h.done
	return err
}

// run reads events until the hub is closed.
func (h *hub) run() {
	defer close(h.done)
	_ = h.conn.Read(func(fd uintptr) bool { // called again whenever there are events
		h.read(int(fd))
		return false
	})
}

// drain tells all events that are in the queue now.
func (h *hub) drain() { _ = h.conn.Control(func(fd uintptr) { h.read(int(fd)) }) }

func (h *hub) read(fd int) {
	const most = syscall.SizeofInotifyEvent + 256 // of one event, which has a name
	begun := h.reads.Load()
	h.reading.Lock()
	defer h.reading.Unlock()
	if h.reads.Load() > begun { // another goroutine has read it meanwhile, from beginning to end
		return
	}
	h.reads.Add(1)
	for n := len(h.buf); n > len(h.buf)-most; { // otherwise there was room for another event, and none in the queue
		var err error
		for n, err = syscall.Read(fd, h.buf[:]); err == syscall.EINTR; {
			n, err = syscall.Read(fd, h.buf[:])
		}
		for rest := h.buf[:max(n, 0)]; len(rest) >= syscall.SizeofInotifyEvent; {
			node, mask := int32(binary.NativeEndian.Uint32(rest)), binary.NativeEndian.Uint32(rest[4:])
			end := syscall.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(rest[12:]))
			h.event(node, mask, strings.TrimRight(string(rest[syscall.SizeofInotifyEvent:end]), "\x00"))
			rest = rest[end:]
		}
	}
}

// event calls the subs of a watch. If the queue overflowed, it calls all of them, and they read again.
func (h *hub) event(node int32, mask uint32, name string) {
	const all, ended = syscall.IN_Q_OVERFLOW, syscall.IN_IGNORED | syscall.IN_UNMOUNT
	h.mu.Lock()
	subs := slices.Collect(maps.Keys(h.nodes[node]))
	if mask&all != 0 {
		for _, of := range h.nodes {
			subs = slices.AppendSeq(subs, maps.Keys(of))
		}
	}
	if mask&syscall.IN_IGNORED != 0 {
		delete(h.nodes, node)
	}
	h.mu.Unlock()
	for _, s := range subs {
		if mask&(s.mask|all|ended) != 0 && (s.name == "" || name == "" || s.name == name) {
			s.tell(mask)
		}
	}
}

// add watches a directory for some events; if a name is given, for those of that entry, and of the directory itself. Events
// from before it returns might not be told, so the caller reads the directory after it. The directory is looked up before the lock is taken, since a disk that hangs must not block the other stores.
func (h *hub) add(dir string, mask uint32, name string, tell func(mask uint32)) (*sub, error) {
	fd, err := h.find(dir)
	if err != nil {
		return nil, failed("inotify_add_watch", dir, err)
	}
	defer syscall.Close(fd)
	h.changing.Lock()
	defer h.changing.Unlock()
	var node int
	err = os.ErrClosed
	_ = h.conn.Control(func(hub uintptr) {
		node, err = syscall.InotifyAddWatch(int(hub), "/proc/self/fd/"+strconv.Itoa(fd), mask|syscall.IN_MASK_ADD)
	})
	if errors.Is(err, syscall.ENOSPC) {
		err = fmt.Errorf("%w: the user watches too many directories; raise fs.inotify.max_user_watches with sysctl", err)
	}
	if err != nil {
		return nil, failed("inotify_add_watch", dir, err)
	}
	s := &sub{node: int32(node), mask: mask, name: name, tell: tell}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.nodes[s.node] == nil {
		h.nodes[s.node] = map[*sub]struct{}{}
	}
	h.nodes[s.node][s] = struct{}{}
	return s, nil
}

// lookup finds a directory, and opens it as a place in the tree: what is in it is not read.
func lookup(dir string) (fd int, err error) {
	const path = 0o10000000 // O_PATH
	return open(dir, path|syscall.O_DIRECTORY|syscall.O_CLOEXEC)
}

// remove ends a watch. It might be called for events for a moment.
func (h *hub) remove(s *sub) {
	h.changing.Lock()
	defer h.changing.Unlock()
	h.mu.Lock()
	of, there := h.nodes[s.node] // otherwise the directory is gone
	delete(of, s)
	last := there && len(of) == 0
	if last {
		delete(h.nodes, s.node)
	}
	h.mu.Unlock()
	if last {
		_ = h.conn.Control(func(fd uintptr) { _, _ = syscall.InotifyRmWatch(int(fd), uint32(s.node)) })
	}
}
