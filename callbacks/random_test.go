package callbacks_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/callbacks"
	"github.com/go-leadership/leadership/channels"
	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	firstSeed = flag.Uint64("seed", 0, "the first seed of TestRandom")
	rounds    = flag.Uint64("rounds", 5, "how many seeds TestRandom runs")
)

// TestRandom runs candidates and followers of packages callbacks and channels against each other. Connections are cut, and
// callbacks, readers, Events and log handlers panic, exit, hang, resign and stop at random. The order of goroutines at one
// instant is not the seed's: if a seed that failed passes, -count=100 tries it again.
func TestRandom(t *testing.T) {
	for seed := *firstSeed; seed < *firstSeed+*rounds && !t.Failed(); seed++ {
		watchdog := time.AfterFunc(2*time.Minute, func() { panic(fmt.Sprintf("seed %d is stuck", seed)) })
		virtual(t, fmt.Sprint("seed ", seed), func(w *world) {
			g := &game{world: w, random: rand.New(rand.NewPCG(seed, 1))}
			g.play()
		})
		watchdog.Stop()
	}
}

// game is one round.
type game struct {
	*world
	log        *slog.Logger
	stores     []*memory.Store
	candidates []*leadership.Candidate
	followers  []*leadership.Follower
	users      sync.WaitGroup // those that read channels and call Run and Follow
	over       chan struct{}  // closed when all were stopped

	luck   sync.Mutex
	random *rand.Rand // guarded by luck
}

// oneIn reports true once in n times.
func (g *game) oneIn(n int) bool { return g.below(n) == 0 }

func (g *game) below(n int) int {
	g.luck.Lock()
	defer g.luck.Unlock()
	return g.random.IntN(n)
}

func (g *game) open() *memory.Store {
	st := g.world.open()
	g.stores = append(g.stores, st)
	return st
}

func (g *game) play() {
	g.over = make(chan struct{})
	g.log = slog.New(rogue{slog.DiscardHandler, g})
	for i := range 3 {
		g.channels(fmt.Sprint("channels ", i), i)
		g.callbacks(fmt.Sprint("callbacks ", i))
	}
	g.followChannels(false)
	g.followChannels(true)
	g.followCallbacks()
	watched := make(chan struct{})
	g.users.Go(func() { g.watchLeaders(watched) })
	for range 40 {
		time.Sleep(time.Duration(g.below(8000)) * time.Millisecond)
		switch st := g.stores[g.below(len(g.stores))]; g.below(5) {
		case 0:
			st.Faults().Cut()
		case 1:
			st.Faults().LoseReplies()
		case 2, 3:
			st.Faults().Heal()
		case 4:
			g.candidates[g.below(len(g.candidates))].Resign()
		}
	}
	for _, st := range g.stores {
		st.Faults().Heal()
	}
	first := g.below(len(g.candidates))
	for i := range g.candidates {
		g.candidates[(first+i)%len(g.candidates)].Stop()
		time.Sleep(time.Duration(g.below(3000)) * time.Millisecond)
	}
	for _, f := range g.followers {
		f.Stop()
	}
	close(g.over)
	close(watched)
	patience, cancel := context.WithTimeout(background, 2*time.Hour)
	defer cancel()
	done := func(s interface{ Done() <-chan struct{} }) {
		select {
		case <-s.Done():
		case <-patience.Done():
			require.Fail(g, "Done is open", "%v", s)
		}
	}
	for _, c := range g.candidates {
		done(c)
		require.Equal(g, leadership.Idle, c.Status().State)
	}
	for _, f := range g.followers {
		done(f)
	}
	g.users.Wait()
	ballots, leader := g.queue(g.open())
	require.Empty(g, ballots)
	require.Empty(g, leader)
}

// watchLeaders checks that two candidates never lead at the same time.
func (g *game) watchLeaders(over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		case <-time.After(50 * time.Millisecond):
		}
		for i, a := range g.candidates {
			first, leads := a.Term()
			for _, b := range g.candidates[i+1:] {
				if !leads || !b.IsLeader() {
					continue
				}
				again, still := a.Term() // the first might have ended before the second began
				assert.False(g, still && again == first, "%v and %v lead", a, b)
			}
		}
	}
}

// rogue is a log handler that does not always return.
type rogue struct {
	slog.Handler
	g *game
}

func (rogue) Enabled(context.Context, slog.Level) bool { return true }
func (r rogue) WithAttrs([]slog.Attr) slog.Handler     { return r }
func (r rogue) Handle(context.Context, slog.Record) error {
	switch r.g.below(12) {
	case 0:
		panic("log")
	case 1:
		runtime.Goexit()
	case 2:
		time.Sleep(30 * time.Second)
	}
	return nil
}

// channels runs a candidate of package channels. Its reader is fast, slow, or reads nothing before the end.
func (g *game) channels(value string, pace int) {
	var c *channels.Candidate
	opts := &leadership.CandidateOptions{Logger: g.log}
	if g.oneIn(3) {
		opts.Events = func(leadership.Event) {
			switch g.below(20) {
			case 0:
				panic("events")
			case 1:
				time.Sleep(20 * time.Second)
			case 2:
				c.Resign()
			case 3:
				if g.oneIn(10) {
					c.Stop()
				}
			}
		}
	}
	c, err := channels.NewCandidate(g.open(), election, value, opts)
	require.NoError(g, err)
	g.candidates = append(g.candidates, c.Candidate)
	elected, errs := c.RunForElection()
	g.users.Go(func() {
		if pace == 2 {
			<-g.over
			<-c.Done()
		}
		values := []bool{}
		for leads := range elected {
			values = append(values, leads)
			if pace == 1 {
				time.Sleep(time.Duration(g.below(20)) * time.Second)
			}
			if g.oneIn(30) {
				c.Resign()
			}
		}
		assert.NotEmpty(g, values)
		for i, leads := range values {
			if i == 0 || i == len(values)-1 {
				assert.False(g, leads, "value %d of %v", i, values)
			}
			assert.False(g, leads && values[i-1], "a true after a true: %v", values)
		}
		if pace == 2 {
			assert.Equal(g, []bool{false}, values)
		}
	})
	g.users.Go(func() {
		for range errs {
		}
	})
}

// callbacks runs a candidate of package callbacks.
func (g *game) callbacks(value string) {
	c, err := leadership.NewCandidate(g.open(), election, value, &leadership.CandidateOptions{Logger: g.log})
	require.NoError(g, err)
	g.candidates = append(g.candidates, c)
	var term *leadership.Term // whose Ended is to come; callbacks are called one after another, which the race detector checks
	calls := callbacks.Candidate{
		Won: func(ctx context.Context, t *leadership.Term) error {
			assert.Nil(g, term, "Won before Ended")
			term = t
			return g.misbehave(ctx, c)
		},
		TakeoverFailed: func(cause error) {
			assert.True(g, term != nil && !term.Acknowledged() && cause != nil, "TakeoverFailed: %v", cause)
			_ = g.misbehave(ended(), c)
		},
		Ended: func(t *leadership.Term, cause error) {
			assert.True(g, t == term && cause != nil && !c.IsLeader(), "Ended: %v", cause)
			term = nil
			_ = g.misbehave(ended(), c)
		},
	}
	g.users.Go(func() {
		assert.NoError(g, callbacks.Run(background, c, calls))
		assert.Nil(g, term, "no Ended")
	})
}

func ended() context.Context {
	ctx, cancel := context.WithCancel(background)
	cancel()
	return ctx
}

// misbehave does what a callback might do.
func (g *game) misbehave(ctx context.Context, c *leadership.Candidate) error {
	switch g.below(14) {
	case 0:
		panic("callback")
	case 1:
		runtime.Goexit()
	case 2:
		time.Sleep(time.Duration(g.below(40)) * time.Second)
	case 3:
		c.Resign()
	case 4:
		if g.oneIn(10) {
			c.Stop()
		}
	case 5:
		return errTakeover
	case 6:
		<-ctx.Done()
	case 7:
		err := callbacks.Run(background, c, callbacks.Candidate{})
		assert.True(g, errors.Is(err, leadership.ErrRunning) || errors.Is(err, leadership.ErrStopped), "%v", err)
	}
	return nil
}

// followChannels runs a follower of package channels, whose reader reads nothing before the end if it is lazy.
func (g *game) followChannels(lazy bool) {
	f, err := channels.NewFollower(g.open(), election, &leadership.FollowerOptions{Logger: g.log})
	require.NoError(g, err)
	g.followers = append(g.followers, f.Follower)
	leaders, errs := f.FollowElection()
	g.users.Go(func() {
		if lazy {
			<-g.over
		}
		var read []leadership.Leader
		for leader := range leaders {
			read = append(read, leader)
		}
		assert.Equal(g, read, slices.Compact(slices.Clone(read)), "the same leader twice")
		revisions := []uint64{}
		for _, leader := range read {
			if leader.Revision != 0 {
				revisions = append(revisions, leader.Revision)
			}
		}
		assert.IsNonDecreasing(g, append([]uint64{0, 0}, revisions...))
		if lazy {
			assert.LessOrEqual(g, len(read), 1)
		}
		for range errs {
		}
	})
}

// followCallbacks runs a follower of package callbacks, again and again.
func (g *game) followCallbacks() {
	f, err := leadership.NewFollower(g.open(), election, &leadership.FollowerOptions{Logger: g.log})
	require.NoError(g, err)
	g.followers = append(g.followers, f)
	g.users.Go(func() {
		for err := error(nil); !errors.Is(err, leadership.ErrStopped); {
			known := false
			err = callbacks.Follow(background, f, callbacks.Follower{
				NewLeader: func(context.Context, leadership.Leader) {
					assert.False(g, known, "NewLeader without LeaderGone")
					known = true
					g.exit()
				},
				LeaderGone: func(context.Context) {
					known = false
					g.exit()
				},
			})
			assert.Error(g, err)
		}
	})
}

// exit sleeps, panics or ends its goroutine at times.
func (g *game) exit() {
	switch g.below(10) {
	case 0:
		panic("callback")
	case 1:
		runtime.Goexit()
	case 2:
		time.Sleep(25 * time.Second)
	}
}
