package haproxy

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// checker asks all processes over and over whether they lead, without HAProxy.
type checker struct {
	stop func() // ends it

	mu    sync.Mutex
	terms map[uint64]term // guarded by mu, as asked: by their tokens
	asked int
}

// term is what the answers 200 of one term prove: it began before the first of them was received, and ended after the
// last of the questions was sent.
type term struct{ began, ended time.Time }

// newChecker begins to ask, each process every 10 ms or as soon as it has answered.
func newChecker(t testing.TB, members []*member) *checker {
	ctx, cancel := context.WithCancel(context.Background())
	c := &checker{terms: map[uint64]term{}}
	transport := &http.Transport{}
	var asking sync.WaitGroup
	for _, m := range members {
		asking.Go(func() {
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for ctx.Err() == nil {
				c.ask(ctx, transport, m)
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		})
	}
	c.stop = sync.OnceFunc(func() {
		cancel()
		asking.Wait()
		transport.CloseIdleConnections()
	})
	t.Cleanup(c.stop)
	return c
}

// ask asks one process.
func (c *checker) ask(ctx context.Context, transport *http.Transport, m *member) {
	question, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.Status+"/leader", nil)
	if err != nil {
		return
	}
	sent := time.Now()
	resp, err := transport.RoundTrip(question)
	if err != nil { // it is dead, or the test ends
		return
	}
	received := time.Now()
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if resp.StatusCode == http.StatusOK {
		token, _ := strconv.ParseUint(resp.Header.Get("Leadership-Token"), 10, 64)
		c.note(token, sent, received)
	}
}

// note notes an answer 200.
func (c *checker) note(token uint64, sent, received time.Time) {
	t, ok := c.terms[token]
	if !ok || received.Before(t.began) {
		t.began = received
	}
	if sent.After(t.ended) {
		t.ended = sent
	}
	c.terms[token] = t
}

// seen returns how many terms the checker has seen.
func (c *checker) seen() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.terms)
}

// proves returns why two processes led at one instant, or "" if the answers do not prove that.
func (c *checker) proves() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	tokens := slices.Sorted(maps.Keys(c.terms))
	for i, token := range tokens[:max(len(tokens), 1)-1] {
		next := tokens[i+1]
		if overlap := c.terms[token].ended.Sub(c.terms[next].began); overlap >= 0 {
			return fmt.Sprintf("/leader was 200 with token %d %v after it was 200 with token %d", token, overlap, next)
		}
	}
	return ""
}

// TestChecker: what answers prove.
func TestChecker(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(0, 0).Add(time.Duration(ms) * time.Millisecond) }
	for _, c := range []struct {
		answers [][3]int // token, sent, received
		proof   bool
	}{
		{nil, false},
		{[][3]int{{1, 0, 1}}, false},
		{[][3]int{{1, 0, 1}, {2, 0, 1}}, false}, // the first ended at 0, and the second began at 1
		{[][3]int{{1, 0, 9}, {2, 3, 4}}, false},
		{[][3]int{{1, 0, 1}, {1, 3, 9}, {2, 2, 4}}, false},
		{[][3]int{{1, 0, 1}, {1, 4, 9}, {2, 2, 4}}, true},
		{[][3]int{{1, 0, 9}, {2, 3, 4}, {2, 8, 9}}, false},
		{[][3]int{{2, 0, 1}, {1, 2, 3}}, true}, // each term ends before the next one
		{[][3]int{{1, 0, 1}, {2, 2, 3}, {3, 4, 5}}, false},
	} {
		k := &checker{terms: map[uint64]term{}}
		for _, a := range c.answers {
			k.note(uint64(a[0]), at(a[1]), at(a[2]))
		}
		require.Equal(t, c.proof, k.proves() != "", "%v: %s", c.answers, k.proves())
	}
}
