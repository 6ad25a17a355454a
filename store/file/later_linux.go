package file

import (
	"sync"
	"time"
)

// later does work that is not urgent after a short delay: it shows new leaders, and removes what withdrawn ballots have
// left. Meanwhile processes that are told of a change can use the processor and the disk. If this process is killed
// first, other processes do the work.
type later struct {
	driver *driver

	mu    sync.Mutex
	shows map[string]bool // guarded by mu, as are all below: the elections whose leader has changed
	left  []leftover
	works bool // a goroutine runs work
}

// leftover is the directory of a ballot that has been withdrawn.
type leftover struct {
	election electionDir
	name     string
}

// moment is how long later waits.
const moment = 5 * time.Millisecond

// show shows the leader of an election.
func (l *later) show(election string) {
	l.add(func() {
		if l.shows == nil {
			l.shows = map[string]bool{}
		}
		l.shows[election] = true
	})
}

// clean removes what a ballot has left.
func (l *later) clean(p electionDir, name string) {
	l.add(func() { l.left = append(l.left, leftover{p, name}) })
}

func (l *later) add(note func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	note()
	if !l.works {
		l.works = l.driver.life.Go(l.work)
	}
}

// work does what is due, and what becomes due meanwhile. At the end of the store it does not wait for the delay.
func (l *later) work() {
	d := l.driver
	for more := true; more; {
		timer := time.NewTimer(moment)
		select {
		case <-timer.C:
		case <-d.life.Background.Done():
			timer.Stop()
		}
		l.mu.Lock()
		shows, left := l.shows, l.left
		l.shows, l.left = nil, nil
		l.mu.Unlock()
		for election := range shows {
			if err := d.publish(d.dirOf(election)); err != nil {
				d.warn("can't show the leader of election "+election+" in "+d.dirOf(election).leader(), err)
			}
		}
		for _, b := range left {
			b.election.clean(d, b.name)
		}
		l.mu.Lock()
		more = len(l.shows)+len(l.left) > 0
		l.works = more
		l.mu.Unlock()
	}
}
