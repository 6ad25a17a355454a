package postgres

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	_ "github.com/go-leadership/leadership/store/postgres"
	"github.com/stretchr/testify/require"
)

// ours is this library. A leader acknowledges as soon as it leads.
var ours = &contender{
	name: "leadership", ttl: same, poll: never,
	statements: "",
	install: func(ctx context.Context, url, _ string) error {
		p, err := openOurs(ctx, url, usual)
		if err != nil {
			return err
		}
		defer p.close()
		_, err = p.(*ourProcess).store.Elections(ctx)
		return err
	},
	open: openOurs,
}

func openOurs(ctx context.Context, text string, ttl time.Duration) (process, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	u.RawQuery = "ttl=" + ttl.String()
	st, err := store.Open(ctx, u.String(), nil)
	return &ourProcess{st}, err
}

type ourProcess struct{ store store.Store }

func (p *ourProcess) close() { _ = p.store.Close() }

func (p *ourProcess) enter(election, value string, led func()) (standing, error) {
	c, err := leadership.NewCandidate(p.store, election, value, nil)
	return &ourCandidate{candidate: c, led: led}, err
}

type ourCandidate struct {
	candidate *leadership.Candidate
	led       func()

	cancel  context.CancelFunc // ends what stand has started
	running sync.WaitGroup
}

func (c *ourCandidate) leads() bool { return c.candidate.IsLeader() }

func (c *ourCandidate) stand() error {
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.running.Go(func() {
		for ctx.Err() == nil {
			term, err := c.candidate.Campaign(ctx)
			if err != nil {
				pause(ctx, 100*time.Millisecond)
				continue
			}
			c.led()
			_ = term.Acknowledge(ctx)
			select {
			case <-ctx.Done():
			case <-term.Context().Done():
			}
			_ = term.Withdraw(context.Background())
		}
	})
	return nil
}

func (c *ourCandidate) resign() error {
	c.cancel()
	c.running.Wait()
	return nil
}

func (c *ourCandidate) close() {
	if c.cancel != nil {
		c.cancel()
	}
	c.running.Wait()
	c.candidate.Stop()
	<-c.candidate.Done()
}

// BenchmarkFollower measures from the leader's orderly end until a follower in a third process is told of the next leader,
// which has acknowledged. Two commits follow each other, so no program needs less than two floors. The other contenders
// tell nothing.
func BenchmarkFollower(b *testing.B) {
	s := newServer(b)
	floor := &series{measure: newFloor(b, s).measure}
	g := newGroup(b, s, ours, "follower", 2, 2, usual)
	p, err := openOurs(b.Context(), s.url(candidate, s.address()), usual)
	require.NoError(b, err)
	b.Cleanup(p.close)
	told := make(chan victory, 100)
	f, err := leadership.NewFollower(p.(*ourProcess).store, "follower", &leadership.FollowerOptions{Events: func(e leadership.Event) {
		if e.Kind == leadership.LeaderChanged && e.Leader.Revision != 0 { // it might be told before that there is none
			told <- victory{at: time.Now()}
		}
	}})
	require.NoError(b, err)
	b.Cleanup(func() { f.Stop(); <-f.Done() })
	f.Start()
	receive(b, told, "the first leader")
	news := &series{measure: func(b *testing.B) time.Duration {
		g.reenter(b)
		settle()
		began, _ := g.change(b)
		return receive(b, told, "the follower to be told").at.Sub(began)
	}}
	interleave(b, floor, news)
	floor.report(b, "floor-")
	news.report(b, "")
	b.ReportMetric(ratio(quantile(news.took, 0.5), quantile(floor.took, 0.5)), "ratio")
}

// BenchmarkCandidates measures the hand-over by the number of candidates.
func BenchmarkCandidates(b *testing.B) {
	s := newServer(b)
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			took := &series{measure: newGroup(b, s, ours, fmt.Sprint("size", n), n, min(n, maxProcesses), usual).handOver}
			interleave(b, took)
			took.report(b, "")
		})
	}
}
