package file

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-leadership/leadership/store"
)

// Tokens and revisions are numbers of entries in a directory, which grow. A floor is an empty entry of f whose name is
//
//	<floor>-<end>-<boot>
//
// In that boot of the machine, numbers up to the highest floor are not given out any more, so that entries with such
// numbers may be removed; and no number from the highest end on is given out before a higher end is durable. What was
// written since is lost if the power fails, and the next boot begins with a floor at the end of the last. So numbers never
// go back, and no entry of an election has to be synced.

// block is by how much an end is raised. A crash of the machine skips at most that many numbers.
const block = 1024

// numbers are what a driver knows about the floors.
type numbers struct {
	driver *driver

	mu            sync.Mutex
	durable       uint64 // guarded by mu, and held while syncing: the end that is known to be durable
	seen          uint64 // the highest end that was seen: the directory might be removed, and made again
	tickets, acks uint64 // the highest numbers of any election
}

// floors are the limits that hold in this boot.
type floors struct{ floor, end uint64 }

func (d *driver) floorPath(f floors) string {
	return fmt.Sprintf("%s/%d-%d-%s", d.floorDir(), f.floor, f.end, d.boot)
}

// parseFloor parses the name of a floor.
func parseFloor(name string) (f floors, boot string, ok bool) {
	parts := strings.Split(name, "-")
	if len(parts) != 3 {
		return f, "", false
	}
	var err, err2 error
	f.floor, err = strconv.ParseUint(parts[0], 10, 64)
	f.end, err2 = strconv.ParseUint(parts[1], 10, 64)
	return f, parts[2], err == nil && err2 == nil
}

// floors reads the floors, and makes one if this boot has none.
func (n *numbers) floors() (now floors, err error) {
	d := n.driver
	names, err := d.ops.list(d.floorDir())
	if err != nil {
		return now, err
	}
	var last uint64 // the highest end of all boots
	for _, name := range names {
		f, boot, ok := parseFloor(name)
		if !ok {
			continue
		}
		last = max(last, f.end)
		if boot == d.boot {
			now.floor, now.end = max(now.floor, f.floor), max(now.end, f.end)
		}
	}
	n.mu.Lock()
	seen := n.seen
	n.seen = max(seen, now.end)
	n.mu.Unlock()
	switch {
	case now.end == 0 && last == 0 && seen == 0 && !d.durable:
		last = uint64(time.Now().UnixMicro()) // nothing is left of what was given out before
		fallthrough
	case now.end == 0, now.end < seen:
		last = max(last, seen)
		return n.raise(floors{last, last + block})
	}
	return now, nil
}

// raise makes a floor.
func (n *numbers) raise(f floors) (floors, error) {
	d := n.driver
	err := d.ops.symlink("-", d.floorPath(f))
	if taken(err) {
		err = nil
	}
	return f, err
}

// secure makes an end durable before numbers below it are given out. Another process might have made that end and
// crashed before it was durable.
func (n *numbers) secure(end uint64) error {
	d := n.driver
	if !d.durable {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if end <= n.durable {
		return nil
	}
	for dir := d.floorDir(); dir != "/"; dir = path.Dir(dir) {
		if err := d.ops.sync(dir); err != nil && len(dir) >= len(d.root()) { // we might have no permission to read the directories above
			return err
		}
	}
	n.durable = end
	return nil
}

// last returns the highest number used in a directory, of tickets or of acknowledgements. If an operator removes the
// entries, the numbers still go on.
func (n *numbers) last(dir string, number uint64) uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	of := &n.tickets
	if path.Base(dir) != "_q" {
		of = &n.acks
	}
	*of = max(*of, number)
	return *of
}

// take makes an entry with the next number in a directory, and returns the numbers that existed, or might have. The
// number is void if a floor was raised above it meanwhile: then an earlier entry with that number might have been
// removed.
func (n *numbers) take(dir, target string) (number uint64, before []uint64, void bool, err error) {
	d := n.driver
	f, err := n.floors()
	if err != nil {
		return 0, nil, false, err
	}
	names, err := d.ops.list(dir)
	if err != nil {
		return 0, nil, false, err
	}
	before = numbered(names)
	number = max(f.floor, n.last(dir, 0))
	if len(before) > 0 {
		number = max(number, before[len(before)-1])
	}
	defer func() { n.last(dir, number) }()
	for {
		number++
		if number >= f.end {
			if f, err = n.raise(floors{f.floor, number + block}); err != nil {
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
	if f, err = n.floors(); err == nil {
		if number > f.floor {
			return number, before, false, nil
		}
		if err = d.ops.unlink(numberIn(dir, number)); err == nil || missing(err) { // the one that raised the floor might be first
			return number, before, true, nil
		}
	}
	return number, before, true, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err) // the entry might stay
}
