package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// contender is a way to elect a leader with PostgreSQL, run as its users run it.
type contender struct {
	name string
	// ttl returns the setting that is nearest to a TTL, which might be the only one.
	ttl func(wanted time.Duration) time.Duration
	// poll is how often a candidate that waits asks, at a TTL; zero if it is told.
	poll func(ttl time.Duration) time.Duration
	// statements matches those that belong to the election, if there are others.
	statements string
	// install makes ready what an election needs, and might be called again.
	install func(ctx context.Context, url, election string) error
	// open returns what one process has for all its elections.
	open func(ctx context.Context, url string, ttl time.Duration) (process, error)
}

// process is what one process has for all its candidates.
type process interface {
	// enter returns a candidate, which calls led each time it begins to lead.
	enter(election, value string, led func()) (standing, error)
	// close ends it, after its candidates.
	close()
}

// standing is a candidate.
type standing interface {
	// stand begins to compete in the background.
	stand() error
	// leads says whether the candidate takes itself for the leader.
	leads() bool
	// resign ends its leadership in the orderly way, and does not stand again.
	resign() error
	// close ends the candidate, whether it leads or not.
	close()
}

var contenders = []*contender{ours, polledLock, blockingLock, pgLock, riverQueue}

// contenderNamed returns a contender.
func contenderNamed(name string) *contender {
	for _, c := range contenders {
		if c.name == name {
			return c
		}
	}
	panic("no contender " + name)
}

// onEachContender starts a server for each, and measures with it.
func onEachContender(b *testing.B, measure func(b *testing.B, s *server, c *contender)) {
	for _, c := range contenders {
		b.Run(c.name, func(b *testing.B) { measure(b, newServer(b), c) })
	}
}

const (
	// short is the TTL for crashes and for those whose hand-over depends on it.
	short = 2 * time.Second
	// usual is the TTL at rest.
	usual = 10 * time.Second
)

// runner is a candidate of a group.
type runner struct {
	standing
	led chan<- victory
}

// victory is a candidate that leads, and since when.
type victory struct {
	at     time.Time
	runner *runner
}

// group is the candidates of one election in this process.
type group struct {
	contender *contender
	ttl       time.Duration
	led       chan victory
	leader    *runner
	resigned  *runner // does not stand; nil if all do
}

// newGroup returns when the first of n candidates leads and the others have begun to stand. They share so many processes.
func newGroup(tb testing.TB, s *server, c *contender, election string, n, processes int, ttl time.Duration) *group {
	tb.Helper()
	url := s.url(candidate, s.address())
	require.NoError(tb, c.install(context.Background(), url, election))
	g := &group{contender: c, ttl: c.ttl(ttl), led: make(chan victory, n)}
	var all []process
	for range processes {
		p, err := c.open(context.Background(), url, g.ttl)
		require.NoError(tb, err)
		tb.Cleanup(p.close)
		all = append(all, p)
	}
	for i := range n {
		r := &runner{led: g.led}
		var err error
		r.standing, err = all[i%processes].enter(election, fmt.Sprint("candidate", i), func() { g.led <- victory{time.Now(), r} })
		require.NoError(tb, err)
		tb.Cleanup(r.close)
		require.NoError(tb, r.stand())
		if i == 0 {
			g.leader = receive(tb, g.led, "the first leader").runner
		}
	}
	return g
}

// change lets the leader resign. It returns the times at which that began, and at which the next one led.
func (g *group) change(tb testing.TB) (began, led time.Time) {
	tb.Helper()
	old, resigned := g.leader, make(chan error, 1)
	began = time.Now()
	go func() { resigned <- old.resign() }()
	v := receive(tb, g.led, "the next leader")
	require.NotSame(tb, old, v.runner)
	require.True(tb, v.runner.leads())
	require.NoError(tb, receive(tb, resigned, "the leader to resign"))
	g.leader, g.resigned = v.runner, old
	return began, v.at
}

// reenter lets the candidate that resigned stand again, if there is one.
func (g *group) reenter(tb testing.TB) {
	tb.Helper()
	if g.resigned != nil {
		require.NoError(tb, g.resigned.stand())
		g.resigned = nil
	}
}

func same(ttl time.Duration) time.Duration { return ttl }

func never(time.Duration) time.Duration { return 0 }
