package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-leadership/leadership/store"
)

// Tokens and revisions are numbers of entries in a directory, which grow. A floor is an empty entry of f whose name is
//
//	<floor>-<end>
//
// It is for all elections. Numbers up to the highest floor are not given out any more, so that entries with such numbers
// may be removed. Numbers more than a block above it are not given out before there is a higher floor: if the entries of
// an election are gone, a floor that is a block higher is above all that were given out. No number from the highest end
// on is given out before a higher end is durable. What was written since is lost if the power fails, and no process knows
// whether it did. So each begins with a floor at the highest end, and no entry of an election has to be synced.
//
// If the floors are gone, the next is at the wall clock in microseconds. Each process that begins takes numbers worth four
// milliseconds, so that they rarely come near the clock.

const (
	block = 64   // how far numbers may go above the highest floor
	span  = 4096 // how far an end is above the floor with which it is made
	most  = 64   // how many floors there are before old ones are removed
)

// numbers are what a driver knows about the floors.
type numbers struct {
	driver    *driver
	preparing *requests // those of prepare: they end no session, however long they take

	syncing sync.Mutex    // held while an end is made durable, which might take long
	durable atomic.Uint64 // the end that is known to be durable; written with syncing locked

	mu   sync.Mutex
	seen uint64 // guarded by mu: the highest end that was seen, 0 before the first floor: the directory might be removed, and made again
}

// floors are the limits that hold now.
type floors struct {
	floor, end uint64
	count      int // how many there are
}

func (d *driver) floorPath(f floors) string {
	return fmt.Sprintf("%s/%d-%d", d.floorDir(), f.floor, f.end)
}

// parseFloor parses the name of a floor.
func parseFloor(name string) (f floors, ok bool) {
	floor, end, _ := strings.Cut(name, "-")
	var err, err2 error
	f.floor, err = strconv.ParseUint(floor, 10, 62)
	f.end, err2 = strconv.ParseUint(end, 10, 62)
	return f, err == nil && err2 == nil
}

// floors reads the floors. The first time it makes one at the highest end, and also if an end has gone that it has seen.
func (n *numbers) floors() (now floors, err error) {
	d := n.driver
	n.mu.Lock()
	seen := n.seen // before the listing, which need not show a floor that is made meanwhile
	n.mu.Unlock()
	names, err := d.ops.list(d.floorDir())
	if err != nil {
		return now, err
	}
	for _, name := range names {
		if f, ok := parseFloor(name); ok {
			now.floor, now.end = max(now.floor, f.floor), max(now.end, f.end)
		}
	}
	now.count = len(names)
	if seen > 0 && now.end >= seen {
		n.see(now.end)
		return now, nil
	}
	floor := max(now.end, seen)
	if now.end < max(seen, 1) { // floors were removed, and others might have given out more than is known here
		floor = max(floor, uint64(time.Now().UnixMicro()))
		n.syncing.Lock()
		n.durable.Store(0) // what is there now is new
		n.syncing.Unlock()
	}
	return n.raise(now, floor)
}

func (n *numbers) see(end uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen = max(n.seen, end)
}

// raise makes a higher floor.
func (n *numbers) raise(now floors, floor uint64) (floors, error) {
	d := n.driver
	now.floor = floor
	if floor+block >= now.end {
		now.end = floor + span
	}
	err := d.ops.symlink("-", d.floorPath(now))
	if err != nil && !taken(err) {
		return now, err
	}
	n.see(now.end)
	if now.count++; now.count > most {
		d.forgetFloors()
		now.count = 0
	}
	return now, nil
}

// prepare makes an end durable if none is known to be, so that the first entry does not wait for that. While that hangs
// no other request begins it.
func (n *numbers) prepare(ctx context.Context) error {
	if n.durable.Load() > 0 || !n.driver.durable {
		return nil
	}
	if err := n.preparing.wait(ctx); err != nil {
		return err
	}
	return doNow(ctx, n.driver, func() error {
		defer n.preparing.begin()()
		f, err := n.floors()
		if missing(err) {
			return nil
		}
		return cmp.Or(err, n.secure(f.end))
	})
}

// secure makes an end durable before numbers below it are given out. Another process might have made that end and
// crashed before it was durable.
func (n *numbers) secure(end uint64) error {
	d := n.driver
	if !d.durable || end <= n.durable.Load() {
		return nil
	}
	n.syncing.Lock()
	defer n.syncing.Unlock()
	if end <= n.durable.Load() {
		return nil
	}
	for dir := d.floorDir(); dir != "/"; dir = path.Dir(dir) {
		if n.durable.Load() > 0 && dir != d.floorDir() {
			break // synced before
		}
		// The directories above might be those of others, and not to be read, or of a file system that syncs none.
		if err := d.ops.sync(dir); err != nil && (len(dir) >= len(d.root()) || errors.Is(err, syscall.EIO)) {
			return err
		}
	}
	n.durable.Store(end)
	return nil
}

// take makes an entry with the next number in a directory, and returns the lower numbers that it has found. The number is
// void if a floor was raised above it meanwhile: then an earlier entry with that number might have been removed. The
// caller passes a void number on to its next call, which removes it, but not before it has listed the directory. So the
// directory does not look empty, and the next call raises no floor, which would make numbers of others void.
func (n *numbers) take(dir, target string, last uint64) (number uint64, before []uint64, void bool, err error) {
	d := n.driver
	if last > 0 {
		defer func() { _ = d.ops.unlink(numberIn(dir, last)) }() // if it stays, it points to nothing that stands
	}
	names, err := d.ops.list(dir) // before the floors: they are above what is removed later
	if err != nil {
		return 0, nil, false, err
	}
	f, err := n.floors()
	if err != nil {
		return 0, nil, false, err
	}
	before = numbered(names)
	if len(before) == 0 { // the election is new, or its entries were removed
		if f, err = n.raise(f, f.floor+block); err != nil {
			return 0, nil, false, err
		}
	}
	number = f.floor
	if len(before) > 0 {
		number = max(number, before[len(before)-1])
	}
	for {
		number++
		if number > f.floor+block {
			if f, err = n.raise(f, number-1); err != nil {
				return 0, nil, false, err
			}
		}
		if err := n.secure(f.end); err != nil {
			return 0, nil, false, err
		}
		err := d.ops.symlink(target, numberIn(dir, number))
		if err == nil {
			break
		}
		if !taken(err) {
			return 0, nil, false, err
		}
		before = append(before, number)
	}
	if f, err = n.floors(); err != nil {
		return number, before, true, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err) // the entry might stay
	}
	return number, before, number <= f.floor, nil
}
