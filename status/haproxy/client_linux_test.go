package haproxy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
)

// client sends requests to HAProxy at a constant rate, whether they are answered or not.
type client struct {
	url  string
	http http.Client
	stop func() // waits for the requests that are under way

	mu      sync.Mutex
	sent    []time.Time // guarded by mu, as answers: of the request that has the number
	answers []answer
}

// answer is an answer that the client has received.
type answer struct {
	request
	received time.Time
	code     int
}

const (
	every   = 25 * time.Millisecond // a client sends a request so often
	pending = 500                   // and pauses while so many are under way: the machine is busy
)

// newClient begins to send requests to HAProxy. Their paths are the balancer's name and a number.
func newClient(t testing.TB, address, balancer string) *client {
	ctx, cancel := context.WithCancel(context.Background())
	c := &client{url: "http://" + address + "/" + balancer}
	transport := &http.Transport{MaxIdleConnsPerHost: pending}
	c.http = http.Client{Transport: transport, Timeout: storetest.Watchdog}
	var requests sync.WaitGroup
	requests.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		room := make(chan struct{}, pending)
		for n := 0; ; n++ {
			select {
			case room <- struct{}{}:
			case <-ctx.Done():
				return
			}
			c.mu.Lock()
			c.sent = append(c.sent, time.Now())
			c.mu.Unlock()
			requests.Go(func() {
				c.send(n)
				<-room
			})
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	c.stop = func() {
		cancel()
		requests.Wait()
		transport.CloseIdleConnections()
	}
	t.Cleanup(c.stop)
	return c
}

// send sends a request. Without an answer, the process or HAProxy has closed the connection.
func (c *client) send(n int) {
	resp, err := c.http.Post(fmt.Sprintf("%s/%d", c.url, n), "", nil) // net/http would send a GET again
	if err != nil {
		return
	}
	defer resp.Body.Close()
	a := answer{code: resp.StatusCode}
	_ = json.NewDecoder(resp.Body).Decode(&a.request) // HAProxy's own answers are not JSON
	a.received = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers = append(c.answers, a)
}

// served returns the last answer of a process that leads.
func (c *client) served() (last answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.answers {
		if a.code == http.StatusOK && a.received.After(last.received) {
			last = a
		}
	}
	return last
}

// none returns when the client first heard, after a time, that HAProxy has no server.
func (c *client) none(after time.Time) (first time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.answers {
		if a.code == http.StatusServiceUnavailable && a.received.After(after) && (first.IsZero() || a.received.Before(first)) {
			first = a.received
		}
	}
	return first
}
