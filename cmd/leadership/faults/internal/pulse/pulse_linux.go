// Package pulse is the shared memory into which a command beats.
package pulse

import (
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	// Interval is the time between two beats.
	Interval = time.Millisecond
	// Limit is how long a command lives at most, so that a trial which is interrupted leaves nothing.
	Limit = 4 * time.Minute
	// Kept is how many beats are kept.
	Kept = 8192
)

// Pulse is in shared memory. All times are nanoseconds of CLOCK_BOOTTIME. All fields are accessed atomically.
type Pulse struct {
	Start int64 // when the command's program began
	Stop  int64 // not zero: the command is to end
	Count int64 // of all beats
	Beats [Kept]int64
}

// Open maps a file, which it makes if there is none. The caller owns the descriptor; the file stays mapped.
func Open(path string) (p *Pulse, fd int, err error) {
	fd, err = syscall.Open(path, syscall.O_RDWR|syscall.O_CREAT, 0o666)
	if err != nil {
		return nil, -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	size := int(unsafe.Sizeof(Pulse{}))
	if err = syscall.Ftruncate(fd, int64(size)); err == nil {
		var memory []byte
		if memory, err = syscall.Mmap(fd, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED); err == nil {
			return (*Pulse)(unsafe.Pointer(&memory[0])), fd, nil
		}
	}
	_ = syscall.Close(fd)
	return nil, -1, &os.PathError{Op: "map", Path: path, Err: err}
}

// Close unmaps a pulse.
func (p *Pulse) Close() error {
	return syscall.Munmap(unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p)))
}

// Since returns how many beats came after an instant, and when the last of all did. It counts the beats that are kept.
func (p *Pulse) Since(t int64) (n int, last int64) {
	for i := range p.Beats {
		at := atomic.LoadInt64(&p.Beats[i])
		if at > t {
			n++
		}
		last = max(last, at)
	}
	return n, last
}
