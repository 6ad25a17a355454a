package leadership

import "sync"

// channels are those of RunForElection or FollowElection. Nothing ever blocks on them: the present state replaces what
// a slow reader has not read yet.
type channels[T any] struct {
	mu     sync.Mutex
	values chan T     // guarded by mu, as is errors; nil before open and after close
	errors chan error // holds the latest
}

// open makes the channels, the first with room for so many values.
func (ch *channels[T]) open(room int) (chan T, chan error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.values, ch.errors = make(chan T, room), make(chan error, 1)
	return ch.values, ch.errors
}

// showError sends an error in place of one that was not read.
func (ch *channels[T]) showError(err error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.errors != nil {
		replace(ch.errors, err)
	}
}

// close closes both, if they are open. The last error, if there is one, replaces what was not read.
func (ch *channels[T]) close(last error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.errors == nil {
		return
	}
	if last != nil {
		replace(ch.errors, last)
	}
	close(ch.values)
	close(ch.errors)
	ch.values, ch.errors = nil, nil
}

// refused returns closed channels that carry an error.
func refused[T any](err error) (<-chan T, <-chan error) {
	var ch channels[T]
	values, errs := ch.open(0)
	ch.close(err)
	return values, errs
}

// replace sends a value in place of all that was not read. The caller is the only sender.
func replace[T any](ch chan T, value T) {
	for {
		select {
		case <-ch:
		default:
			ch <- value
			return
		}
	}
}

// termChannels tell of a candidate's terms. A false is never left out, so a reader that saw true always learns that the
// term ended. A true that was not read before the term ended is left out: values holds [false], [true] or [false true].
type termChannels struct {
	channels[bool]
	leading bool // true was sent last
}

// termBegan sends true if the term still goes on. Term.end marks the term as over before it calls termEnded, so that no
// true follows the false of its own term.
func (ch *termChannels) termBegan(goesOn func() bool) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.values != nil && goesOn() {
		ch.leading = true
		ch.values <- true // there is room: at most one false is waiting
	}
}

// termEnded sends false, and takes back what was not read.
func (ch *termChannels) termEnded() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.leading {
		ch.leading = false
		replace(ch.values, false)
	}
}

// leaderChannels tell a follower's reader who leads.
type leaderChannels struct {
	channels[Leader]
	read, waiting *Leader // what the reader took last, and what is in the channel, which it may have taken
}

// show replaces what was not read, and sends the leader unless the reader knows it.
func (ch *leaderChannels) show(leader Leader) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.values == nil {
		return
	}
	select {
	case <-ch.values:
	default:
		if ch.waiting != nil {
			ch.read = ch.waiting
		}
	}
	ch.waiting = nil
	if ch.read == nil || *ch.read != leader {
		ch.waiting = &leader
		ch.values <- leader
	}
}
