package file

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// disk is a file system in memory that records its changes, so that it can be shown as it might be after a power
// failure. What was synced is there; of the rest, any part. Journaling file systems lose less: they keep the order of
// changes.
type disk struct {
	mu      sync.Mutex
	root    *inode          // guarded by mu, as are all below
	locked  map[*inode]bool // by a process that lives
	history []diskEvent
}

// inode is a file, a directory or a symbolic link.
type inode struct {
	entries map[string]*inode // of a directory
	target  string            // of a link
	content string            // of a file
}

// diskEvent is a change, or makes changes durable.
type diskEvent struct {
	entries []diskEntry // were set at once
	file    *inode      // the content of this file was written
	content string
	sync    *inode // all changes of this file or directory so far are durable
	all     bool   // all changes so far are
}

// diskEntry is an entry of a directory that was set or, without an inode, removed.
type diskEntry struct {
	dir  *inode
	name string
	to   *inode
}

func newDir() *inode { return &inode{entries: map[string]*inode{}} }

func newDisk() *disk { return &disk{root: newDir(), locked: map[*inode]bool{}} }

// pending returns which of the first events of the history are changes that were not durable yet.
func (d *disk) pending(cut int) (list []int) {
	synced := map[*inode]bool{}
	for i, e := range slices.Backward(d.history[:cut]) {
		switch {
		case e.all:
			return list
		case e.sync != nil:
			synced[e.sync] = true
		case e.file != nil && !synced[e.file],
			len(e.entries) > 0 && !slices.ContainsFunc(e.entries, func(c diskEntry) bool { return synced[c.dir] }):
			list = append(list, i)
		}
	}
	return list
}

// crashed returns what is on the disk if the power fails after the first events of the history, and some are lost.
func (d *disk) crashed(cut int, lost map[int]bool) *disk {
	after := newDisk()
	copies := map[*inode]*inode{nil: nil, d.root: after.root}
	of := func(n *inode) *inode {
		if copies[n] == nil && n != nil {
			copies[n] = &inode{target: n.target}
			if n.entries != nil {
				copies[n].entries = map[string]*inode{}
			}
		}
		return copies[n]
	}
	for i, e := range d.history[:cut] {
		if lost[i] || e.sync != nil || e.all {
			continue
		}
		next := diskEvent{file: of(e.file), content: e.content}
		for _, c := range e.entries {
			next.entries = append(next.entries, diskEntry{of(c.dir), c.name, of(c.to)})
		}
		after.change(next)
	}
	after.history = append(after.history, diskEvent{all: true})
	return after
}

// tree returns everything on the disk, as text.
func (d *disk) tree() string {
	var text strings.Builder
	var walk func(path string, n *inode)
	walk = func(path string, n *inode) {
		text.WriteString(path + " " + n.target + n.content + "\n")
		for _, name := range slices.Sorted(maps.Keys(n.entries)) {
			walk(path+"/"+name, n.entries[name])
		}
	}
	walk("", d.root)
	return text.String()
}

// change makes a change, and records it. The caller holds mu.
func (d *disk) change(e diskEvent) {
	for _, c := range e.entries {
		if c.to == nil {
			delete(c.dir.entries, c.name)
		} else {
			c.dir.entries[c.name] = c.to
		}
	}
	if e.file != nil {
		e.file.content = e.content
	}
	d.history = append(d.history, e)
}

// find returns the directory of a path, the last part of the path, and what is there, if anything is.
func (d *disk) find(path string) (dir *inode, name string, n *inode, err error) {
	if path == "/" {
		return d.root, "", d.root, nil
	}
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	dir = d.root
	for _, part := range parts[:len(parts)-1] {
		next := dir.entries[part]
		if next == nil {
			return nil, "", nil, syscall.ENOENT
		}
		if next.entries == nil {
			return nil, "", nil, syscall.ENOTDIR
		}
		dir = next
	}
	name = parts[len(parts)-1]
	return dir, name, dir.entries[name], nil
}

// machineProcess is a process that uses a disk. It implements ops.
type machineProcess struct {
	disk  *disk
	calls int            // guarded by the disk's mu, as are all below: those that change something
	until int            // it is killed before its call with this number; 0: never
	files map[int]*inode // that it has locked
	next  int
}

func (d *disk) process() *machineProcess { return &machineProcess{disk: d, files: map[int]*inode{}} }

// killed is the error of every call after the process was killed: the call has no effect.
const killed = syscall.ENXIO

// do carries out a call. changes is whether it might change something.
func (p *machineProcess) do(op, path string, changes bool, call func(dir *inode, name string, n *inode) error) error {
	d := p.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if changes {
		p.calls++
	}
	if p.until > 0 && p.calls >= p.until {
		for fd, n := range p.files {
			delete(d.locked, n)
			delete(p.files, fd)
		}
		return failed(op, path, killed)
	}
	dir, name, n, err := d.find(path)
	if err == nil {
		err = call(dir, name, n)
	}
	return failed(op, path, err)
}

// make creates something at a free path.
func (p *machineProcess) make(op, path string, made *inode) error {
	return p.do(op, path, true, func(dir *inode, name string, n *inode) error {
		if n != nil {
			return syscall.EEXIST
		}
		p.disk.change(diskEvent{entries: []diskEntry{{dir, name, made}}})
		return nil
	})
}

func (p *machineProcess) mkdir(path string) error { return p.make("mkdir", path, newDir()) }

func (p *machineProcess) symlink(target, path string) error {
	return p.make("symlink", path, &inode{target: target})
}

func (p *machineProcess) rmdir(path string) error {
	return p.do("rmdir", path, true, func(dir *inode, name string, n *inode) error {
		switch {
		case n == nil:
			return syscall.ENOENT
		case n.entries == nil:
			return syscall.ENOTDIR
		case len(n.entries) > 0:
			return syscall.ENOTEMPTY
		}
		p.disk.change(diskEvent{entries: []diskEntry{{dir, name, nil}}})
		return nil
	})
}

func (p *machineProcess) unlink(path string) error {
	return p.do("unlink", path, true, func(dir *inode, name string, n *inode) error {
		switch {
		case n == nil:
			return syscall.ENOENT
		case n.entries != nil:
			return syscall.EISDIR
		}
		p.disk.change(diskEvent{entries: []diskEntry{{dir, name, nil}}})
		return nil
	})
}

func (p *machineProcess) rename(from, to string) error {
	return p.do("rename", from, true, func(dir *inode, name string, n *inode) error {
		if n == nil {
			return syscall.ENOENT
		}
		toDir, toName, there, err := p.disk.find(to)
		switch {
		case err != nil:
			return err
		case there == n:
			return nil
		case there != nil && n.entries != nil && there.entries == nil:
			return syscall.ENOTDIR
		case there != nil && n.entries == nil && there.entries != nil:
			return syscall.EISDIR
		case there != nil && len(there.entries) > 0:
			return syscall.ENOTEMPTY
		}
		p.disk.change(diskEvent{entries: []diskEntry{{dir, name, nil}, {toDir, toName, n}}})
		return nil
	})
}

func (p *machineProcess) chmod(path string, mode uint32) error {
	return p.look("chmod", path, func(*inode) error { return nil })
}

// look carries out a call on something that exists.
func (p *machineProcess) look(op, path string, call func(n *inode) error) error {
	return p.do(op, path, false, func(_ *inode, _ string, n *inode) error {
		if n == nil {
			return syscall.ENOENT
		}
		return call(n)
	})
}

func (p *machineProcess) readlink(path string) (target string, err error) {
	err = p.look("readlink", path, func(n *inode) error {
		if target = n.target; target == "" {
			return syscall.EINVAL
		}
		return nil
	})
	return target, err
}

func (p *machineProcess) list(path string) (names []string, err error) {
	err = p.look("readdir", path, func(n *inode) error {
		if n.entries == nil {
			return syscall.ENOTDIR
		}
		names = slices.Collect(maps.Keys(n.entries))
		return nil
	})
	return names, err
}

func (p *machineProcess) exists(path string) (bool, error) {
	err := p.look("lstat", path, func(*inode) error { return nil })
	if missing(err) {
		return false, nil
	}
	return err == nil, err
}

// write implements ops: it makes a file, and then writes to it.
func (p *machineProcess) write(path, content string) error {
	file := &inode{}
	if err := p.make("open", path, file); err != nil {
		return err
	}
	return p.do("write", path, true, func(*inode, string, *inode) error {
		p.disk.change(diskEvent{file: file, content: content})
		return nil
	})
}

func (p *machineProcess) read(path string) (content string, err error) {
	err = p.look("read", path, func(n *inode) error {
		content = n.content
		return nil
	})
	return content, err
}

func (p *machineProcess) lock(path string) (fd int, err error) {
	file := &inode{}
	if err := p.make("open", path, file); err != nil {
		return -1, err
	}
	err = p.do("flock", path, true, func(*inode, string, *inode) error {
		p.next++
		fd, p.files[p.next], p.disk.locked[file] = p.next, file, true
		return nil
	})
	return fd, err
}

func (p *machineProcess) free(path string) (free bool, err error) {
	err = p.look("flock", path, func(n *inode) error {
		free = !p.disk.locked[n]
		return nil
	})
	return free, err
}

func (p *machineProcess) sync(path string) error {
	return p.do("fsync", path, true, func(_ *inode, _ string, n *inode) error {
		if n == nil {
			return syscall.ENOENT
		}
		p.disk.history = append(p.disk.history, diskEvent{sync: n})
		return nil
	})
}

func (p *machineProcess) close(fd int) {
	p.disk.mu.Lock()
	defer p.disk.mu.Unlock()
	delete(p.disk.locked, p.files[fd])
	delete(p.files, fd)
}
