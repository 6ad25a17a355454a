package file

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
)

// journal is where a process of a test records what it does. It is memory shared with the test, so that nothing is lost
// when the process is killed, and writing needs no system call. All times are of CLOCK_BOOTTIME, which is the same in
// all processes.
type journal struct {
	memory  []byte
	records *[journalSize]record
	last    atomic.Pointer[record] // of the process: that of the latest ballot
	next    int
}

const journalSize = 1024

// record is one ballot. The process writes it; zero means that the step has not happened.
type record struct {
	token    atomic.Int64 // the last that cast writes
	cast     atomic.Int64 // after Campaign returned it
	began    atomic.Int64 // after IsLeader was true
	last     atomic.Int64 // before IsLeader was true the last time
	until    atomic.Int64 // IsLeader is true until then without any further renewal
	resigned atomic.Int64 // before Resign was called
	ended    atomic.Int64 // after IsLeader was false
	_        int64
}

// openJournal opens the journal of a process, which the test has made.
func openJournal(path string) (*journal, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := int(unsafe.Sizeof(record{})) * journalSize
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	j := &journal{}
	if j.memory, err = syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED); err != nil {
		return nil, err
	}
	j.records = (*[journalSize]record)(unsafe.Pointer(&j.memory[0]))
	return j, nil
}

func (j *journal) close() error { return syscall.Munmap(j.memory) }

// journaled is a store that notes each ballot.
type journaled struct {
	store.Store
	journal *journal
}

// Cast implements store.Store.
func (s journaled) Cast(ctx context.Context, election, value string) (store.Ballot, error) {
	ballot, err := s.Store.Cast(ctx, election, value)
	if err != nil {
		return nil, err
	}
	j := s.journal
	if j.next == journalSize {
		return nil, fmt.Errorf("%w: the journal is full", store.ErrInvalid)
	}
	r := &j.records[j.next]
	j.next++
	r.cast.Store(int64(bootTime()))
	r.token.Store(int64(ballot.Token()))
	j.last.Store(r)
	return ballot, nil
}

// lead records for how long the candidate leads, until the term has lasted for some time or is over. The candidate led
// at each recorded time, however long the process was stopped between two statements.
func (j *journal) lead(c *leadership.Candidate, term *leadership.Term, lasts time.Duration) {
	r := j.last.Load()
	for began := time.Duration(0); ; time.Sleep(100 * time.Microsecond) {
		now := bootTime()
		remaining := term.Remaining()
		if !c.IsLeader() {
			r.ended.Store(int64(bootTime()))
			return
		}
		if began == 0 {
			began = bootTime()
			r.began.Store(int64(began))
			continue
		}
		r.last.Store(int64(now))
		r.until.Store(int64(now + remaining))
		if now-began >= lasts {
			r.resigned.Store(int64(bootTime()))
			return
		}
	}
}

// tenure is a time for which a candidate certainly led.
type tenure struct {
	token      uint64
	began, end time.Duration
	member     string
}

// tenures returns those of a process that was killed at that time; 0 if it was not killed.
func (j *journal) tenures(member string, killed time.Duration) (list []tenure) {
	for i := range j.records {
		r := &j.records[i]
		if r.token.Load() == 0 {
			break
		}
		t := tenure{uint64(r.token.Load()), time.Duration(r.began.Load()), time.Duration(r.until.Load()), member}
		if t.began == 0 {
			continue
		}
		if r.ended.Load() != 0 {
			t.end = time.Duration(r.last.Load())
		}
		if resigned := time.Duration(r.resigned.Load()); resigned != 0 {
			t.end = min(t.end, resigned)
		}
		if killed != 0 {
			t.end = min(t.end, killed)
		}
		t.end = max(t.end, t.began)
		list = append(list, t)
	}
	return list
}

// ballots returns the tokens of a process, with the time at which each was cast.
func (j *journal) ballots() (list []tenure) {
	for i := range j.records {
		r := &j.records[i]
		if r.token.Load() == 0 {
			break
		}
		list = append(list, tenure{token: uint64(r.token.Load()), began: time.Duration(r.cast.Load())})
	}
	return list
}

// nearlyFull reports whether there is room for few ballots.
func (j *journal) nearlyFull() bool { return j.records[journalSize*3/4].token.Load() != 0 }

// leads reports whether the process seems to lead, and of which term.
func (j *journal) leads() (token uint64, leads bool) {
	for i := range j.records {
		r := &j.records[i]
		if r.token.Load() == 0 {
			break
		}
		token, leads = uint64(r.token.Load()), r.began.Load() != 0 && r.resigned.Load() == 0 && r.ended.Load() == 0
	}
	return token, leads
}
