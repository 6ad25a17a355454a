package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSilence: the least that was told counts, and another mark counts from its own answer on.
func TestSilence(t *testing.T) {
	now := time.Now()
	after := func(d time.Duration) time.Time { return now.Add(d * time.Second) }
	var s Silence
	_, ok := s.Unproved(now, 0)
	require.False(t, ok, "nothing is known")
	require.Positive(t, s.Left(now), "and no session is ended")
	s.Note("1", 10*time.Second, after(0))
	require.Equal(t, 10*time.Second, s.Left(after(0)))
	require.Equal(t, time.Second, s.Left(after(9)))
	require.Zero(t, s.Left(after(11)))
	s.Note("1", 10*time.Second, after(3))
	require.Equal(t, after(10), s.Due(), "this process knows better")
	s.Note("1", 2*time.Second, after(4))
	require.Equal(t, after(6), s.Due(), "peers have proved more")
	s.Note("1", 9*time.Second, after(5)) // the service was asked before they did
	require.Equal(t, after(6), s.Due())
	left, ok := s.Unproved(after(5), time.Second)
	require.True(t, ok)
	require.Equal(t, time.Second, left)
	s.Proved("2", left)
	_, ok = s.Unproved(after(5), time.Second)
	require.True(t, ok, "that was of another mark")
	s.Proved("1", left)
	_, ok = s.Unproved(after(5), time.Nanosecond)
	require.False(t, ok)
	s.Note("2", 10*time.Second, after(20))
	require.Equal(t, "2", s.Mark())
	require.Equal(t, after(30), s.Due(), "it was renewed")
	_, ok = s.Unproved(after(20), time.Nanosecond)
	require.False(t, ok)
}

// silentWorld is a service with one session, and processes that look after it, in a time of its own. Clocks run up to a
// tenth faster or slower than that time.
type silentWorld struct {
	rng  *rand.Rand
	log  []string
	now  time.Duration
	mark int
	left time.Duration // beside the mark
	sent time.Duration // when the last renewal was sent that was carried out
	over bool
	late []func() // requests on their way
}

// lookout is a process that looks after the session.
type lookout struct {
	rate    float64
	offset  time.Time
	stood   time.Duration // for how long it stood still
	silence Silence
}

const silentTTL = 10 * time.Second

func (w *silentWorld) clock(l *lookout) time.Time {
	return l.offset.Add(time.Duration(l.rate * float64(w.now-l.stood)))
}

// pass lets time pass, and requests arrive meanwhile, in any order.
func (w *silentWorld) pass(most time.Duration) {
	w.now += time.Duration(w.rng.Int64N(int64(most)))
	for len(w.late) > 0 && w.rng.IntN(3) > 0 {
		i := w.rng.IntN(len(w.late))
		request := w.late[i]
		w.late = append(w.late[:i], w.late[i+1:]...)
		request()
	}
}

// stand lets time pass in which a process might stand still.
func (w *silentWorld) stand(l *lookout, most time.Duration) {
	before := w.now
	w.pass(most)
	if w.rng.IntN(2) == 0 {
		l.stood += w.now - before
	}
}

func (w *silentWorld) newLookout() *lookout {
	return &lookout{rate: 0.9 + 0.2*w.rng.Float64(), offset: time.Unix(w.rng.Int64N(1e9), 0)}
}

// look is what a process does: it reads, and writes what it has proved or ends the session. Between any two steps time
// passes.
func (w *silentWorld) look(l *lookout) {
	mark, left := w.mark, w.left
	w.stand(l, time.Second) // until the answer has come
	l.silence.Note(fmt.Sprint(mark), left, w.clock(l))
	w.stand(l, time.Second)
	if l.silence.Left(w.clock(l)) == 0 {
		w.late = append(w.late, func() {
			if w.mark == mark && !w.over {
				w.over = true
				w.log = append(w.log, fmt.Sprintf("%v: ended, %v after the last renewal was sent", w.now, w.now-w.sent))
			}
		})
	} else if left, ok := l.silence.Unproved(w.clock(l), silentTTL/8); ok {
		w.late = append(w.late, func() {
			if w.mark == mark && left < w.left {
				w.left = left
				w.log = append(w.log, fmt.Sprintf("%v: %v left", w.now, left))
			}
		})
	}
	w.stand(l, time.Second)
}

// TestProvenSilenceAddsUp: whatever the clocks of processes that come and go, however long they stand still and their
// requests take, no session ends before the TTL since its last renewal was sent, less the part by which clocks differ. And
// it ends, though no process stays for the TTL.
func TestProvenSilenceAddsUp(t *testing.T) {
	ended := 0
	for seed := range uint64(3000) {
		w := &silentWorld{rng: rand.New(rand.NewPCG(seed, 1)), left: silentTTL}
		list := []*lookout{w.newLookout(), w.newLookout()}
		alive := time.Duration(w.rng.Int64N(int64(30 * time.Second)))
		for w.now < 300*time.Second && !w.over {
			if w.now < alive { // it renews, sometimes late
				sent := w.now
				w.pass(time.Second)
				if w.rng.IntN(2) == 0 && !w.over {
					w.mark, w.left, w.sent = w.mark+1, silentTTL, sent
				}
			}
			w.look(list[w.rng.IntN(2)])
			w.pass(time.Second)
			if w.rng.IntN(4) == 0 {
				list[w.rng.IntN(2)] = w.newLookout()
			}
		}
		if w.over {
			ended++
			require.GreaterOrEqual(t, w.now-w.sent, silentTTL*10/11, "seed %d: %v", seed, w.log)
		}
	}
	require.Equal(t, 3000, ended)
}
