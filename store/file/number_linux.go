package file

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Tokens and revisions are numbers of entries in a directory, which grow. A floor is an empty entry of f whose name is
//
//	<floor>-<end>
//
// It is for all elections. Numbers up to the highest floor are not given out any more, so that entries with such numbers
// may be removed. Numbers more than a block above it are not given out before there is a higher floor: if the entries of
// an election are gone, a floor that is a block higher is above all that were given out. No number from the highest end
// on is given out before a higher end is durable. What was written since is lost if the power fails, and no process knows
// whether it did. So each session begins with a floor at the highest end, and no entry of an election has to be synced.
//
// If the floors are gone, the next is at the wall clock in microseconds. Each process that begins takes numbers worth four
// milliseconds, so that they rarely come near the clock.

const (
	block = 64   // how far numbers may go above the highest floor
	span  = 4096 // how far an end is above the floor with which it is made
	most  = 64   // how many floors there are before old ones are removed
)

// numbers give out numbers.
type numbers struct {
	driver  *driver
	durable atomic.Uint64 // an end that is known to be durable; 0: none is
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

// floors reads the floors. If they are gone, it makes one at the wall clock, above all that were given out before.
func (n *numbers) floors() (now floors, err error) {
	names, err := n.driver.ops.list(n.driver.floorDir())
	if err != nil {
		return now, err
	}
	for _, name := range names {
		if f, ok := parseFloor(name); ok {
			now.floor, now.end = max(now.floor, f.floor), max(now.end, f.end)
		}
	}
	now.count = len(names)
	if now.end == 0 {
		n.durable.Store(0) // what is there now is new
		return n.raise(now, uint64(time.Now().UnixMicro()))
	}
	return now, nil
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
	if now.count++; now.count > most {
		d.forgetFloors()
		now.count = 0
	}
	return now, nil
}

// begin makes a floor at the highest end, since the power might have failed, and makes its end durable: each session begins
// with that, so that no ballot waits for it.
func (n *numbers) begin() error {
	if !n.driver.durable || n.durable.Load() > 0 {
		return nil
	}
	f, err := n.floors()
	if err == nil {
		f, err = n.raise(f, f.end)
	}
	if err == nil {
		err = n.secure(f.end)
	}
	return err
}

// secure makes an end durable before numbers below it are given out, with all directories above it. Another process might
// have made that end and crashed before it was durable.
func (n *numbers) secure(end uint64) error {
	d := n.driver
	if !d.durable || end <= n.durable.Load() {
		return nil
	}
	for dir := d.floorDir(); dir != "/"; dir = path.Dir(dir) {
		// The directories above might be those of others, and not to be read, or of a file system that syncs none.
		if err := d.ops.sync(dir); err != nil && (len(dir) >= len(d.root()) || errors.Is(err, syscall.EIO)) {
			return err
		}
	}
	n.durable.Store(end)
	return nil
}

// take makes an entry with the next number in a directory, and returns the lower numbers that it has found. The number is
// void if a floor was raised above it meanwhile: then an earlier entry with that number might have been removed. A void
// entry stays until it is collected. It points to nothing that stands, and the directory does not look empty: then the next
// call would raise a floor, which would make numbers of others void.
func (n *numbers) take(dir, target string) (number uint64, before []uint64, void bool, err error) {
	d := n.driver
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
		return number, before, true, err
	}
	return number, before, number <= f.floor, nil
}
