package file

import (
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
)

// moment is how long work waits that is not urgent: it shows new leaders, and removes what withdrawn ballots have left.
// Meanwhile processes that are told of a change can use the processor and the disk.
const moment = 5 * time.Millisecond

// afterwards does work a moment later; at the end of the store it does not wait. If this process is killed first, other
// processes do the work.
func (d *driver) afterwards(work func()) {
	d.life.Go(func() {
		adapter.PauseFor(d.life.Background, moment)
		work()
	})
}

// show shows the leader of an election. Changes that come meanwhile are shown together. A leader that could not be shown is
// shown again after the next renewal of the session.
func (d *driver) show(election string) {
	if _, waits := d.shows.LoadOrStore(election, true); waits {
		return
	}
	d.afterwards(func() {
		d.shows.Delete(election)
		err := d.publish(d.dirOf(election))
		if err == nil {
			d.unshown.Delete(election)
			return
		}
		if _, told := d.unshown.Swap(election, true); !told {
			d.warn("can't show the leader of election "+election+" in "+d.dirOf(election).leader(), err)
		}
	})
}

func (d *driver) showAgain() {
	d.unshown.Range(func(election, _ any) bool { d.show(election.(string)); return true })
}
