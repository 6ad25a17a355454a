package file

import (
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
)

// moment is how long the removal of what withdrawn ballots have left waits. Meanwhile processes that are told of a change
// can use the processor and the disk.
const moment = 5 * time.Millisecond

// afterwards does work a moment later; at the end of the store it does not wait. If this process is killed first, other
// processes do the work.
func (d *driver) afterwards(work func()) {
	d.life.Go(func() {
		adapter.PauseFor(d.life.Background, moment)
		work()
	})
}
