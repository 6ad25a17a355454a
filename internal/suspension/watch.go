package suspension

import (
	"io"
	"maps"
	"slices"
	"sync"
)

// watchers share one descriptor and one goroutine, which run while there is a watcher.
var watchers struct {
	mu     sync.Mutex
	all    map[*watcher]struct{} // guarded by mu
	ending func()                // guarded by mu: ends the goroutine and waits for it; nil while there is no watcher
}

type watcher struct {
	mu      sync.Mutex // held while resumed is called
	resumed func()     // guarded by mu; nil once the watch has been stopped
}

// Watch calls resumed soon after the machine has resumed from a suspension, while a Go timer fires as late as the suspension
// was long. It also calls resumed when the wall clock has been set. resumed must not block. The caller calls stop once,
// which returns when resumed is not called any more. An error says that this system can't tell, and matches
// errors.ErrUnsupported if it has no such timer; then resumed is never called, and stop does nothing.
func Watch(resumed func()) (stop func(), err error) {
	watchers.mu.Lock()
	defer watchers.mu.Unlock()
	if watchers.ending == nil {
		events, err := open()
		if err != nil {
			return func() {}, err
		}
		var running sync.WaitGroup
		running.Go(func() { run(events) })
		watchers.all = map[*watcher]struct{}{}
		watchers.ending = func() {
			_ = events.Close()
			running.Wait()
		}
	}
	w := &watcher{resumed: resumed}
	watchers.all[w] = struct{}{}
	return w.stop, nil
}

func (w *watcher) stop() {
	w.mu.Lock()
	w.resumed = nil
	w.mu.Unlock()
	watchers.mu.Lock()
	delete(watchers.all, w)
	end := func() {}
	if len(watchers.all) == 0 {
		end, watchers.ending = watchers.ending, nil
	}
	watchers.mu.Unlock()
	end() // not under mu, which the goroutine needs to come to its end
}

// events tells of resumptions.
type events interface {
	io.Closer
	next() error // waits for one; an error says that there are no more
}

func run(e events) {
	for e.next() == nil {
		Resume()
	}
}

// Resume does what is done when the machine has resumed. Tests call it, too.
func Resume() {
	watchers.mu.Lock()
	all := slices.Collect(maps.Keys(watchers.all))
	watchers.mu.Unlock()
	for _, w := range all {
		w.tell()
	}
}

func (w *watcher) tell() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.resumed != nil {
		w.resumed()
	}
}
