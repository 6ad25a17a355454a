package httpstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-leadership/leadership/examples/httpstore/server"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
)

// driver implements engine.Driver. One long poll waits for all that is watched (watch.go); Close waits
// for the goroutines that do.
type driver struct {
	Config
	id       string       // random: the server knows the polls by it
	requests *http.Client // of all but renewals
	renewals *http.Client // apart, so that a connection is there for the next one
	ctx      context.Context
	stop     context.CancelFunc
	tasks    sync.WaitGroup
	due      chan struct{} // has room for one: the next poll must be sent

	mu      sync.Mutex
	watches map[*watch]struct{} // guarded by mu, as is polls: how many have been sent
	polls   uint64
}

// errDial says that there was no connection, so nothing was sent.
var errDial = errors.New("no connection")

// newClient returns a client. Requests that come all at once, as after an outage, get a connection each. A connection
// that is not used for a TTL is closed.
func newClient(c Config) *http.Client {
	return &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 64, IdleConnTimeout: c.TTL,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := c.Dial(ctx, network, address)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", errDial, err)
			}
			return conn, nil
		},
	}}
}

// send sends a request. It waits for the answer for a TTL at most: a line may be cut without a word. If there is none,
// the outcome is unknown.
func (d *driver) send(ctx context.Context, client *http.Client, operation string, q server.Request) (a server.Answer, err error) {
	body, err := json.Marshal(q)
	if err != nil {
		return a, err
	}
	ctx, cancel := context.WithTimeout(ctx, d.TTL+q.Wait)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+d.Address+"/"+operation, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	answer, err := client.Do(r)
	switch {
	case errors.Is(err, errDial):
		return a, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	case err != nil:
		return a, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode == http.StatusOK {
		err = json.Unmarshal(text, &a)
	}
	switch {
	case err != nil:
		return a, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
	case answer.Header.Get(server.Header) == "": // a gateway's
		return a, fmt.Errorf("%w: %s", store.ErrUnknownOutcome, answer.Status)
	case answer.StatusCode == server.Over:
		return a, engine.ErrOver
	case answer.StatusCode == server.Gone:
		return a, engine.ErrGone
	case answer.StatusCode == server.Void, answer.StatusCode == server.Starting:
		return a, fmt.Errorf("%w: %s", store.ErrUnavailable, answer.Status)
	case answer.StatusCode != http.StatusOK:
		return a, fmt.Errorf("%w: %s", store.ErrInvalid, strings.TrimSpace(string(text)))
	}
	return a, nil
}

// ask sends a request that goes on when ctx ends: cutting it short would cost its connection.
func (d *driver) ask(ctx context.Context, operation string, q server.Request) (a server.Answer, err error) {
	if ctx.Err() != nil {
		return a, fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx))
	}
	answered := make(chan struct{})
	var late server.Answer
	var lateErr error
	d.tasks.Go(func() {
		defer close(answered)
		late, lateErr = d.send(d.ctx, d.requests, operation, q)
	})
	select {
	case <-answered:
		return late, lateErr
	case <-ctx.Done():
		return a, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, context.Cause(ctx))
	}
}

// name returns the name of an election at the server. The empty name stands for all elections below the prefix.
func (d *driver) name(election string) string { return d.Prefix + "/" + election }

// pause waits for some time, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Ahead implements engine.Driver.
func (d *driver) Ahead(ctx context.Context, e engine.Entry) (engine.Place, error) {
	a, err := d.ask(ctx, "ahead", server.Request{Key: e.Key})
	return engine.Place{Nearest: a.Nearest, More: a.More}, err
}

// First implements engine.Driver.
func (d *driver) First(ctx context.Context, election string) (engine.State, error) {
	a, err := d.ask(ctx, "first", server.Request{Election: d.name(election)})
	return engine.State{Token: a.Token, Session: a.Session, Nonce: a.Nonce}, err
}

// Confirm implements engine.Driver. The watches confirm themselves.
func (d *driver) Confirm(ctx context.Context) error {
	_, err := d.ask(ctx, "confirm", server.Request{})
	return err
}

// Ballots implements engine.Driver.
func (d *driver) Ballots(ctx context.Context, election string) (list []store.Standing, err error) {
	a, err := d.ask(ctx, "ballots", server.Request{Election: d.name(election)})
	for _, b := range a.Ballots {
		list = append(list, store.Standing{Value: string(b.Value), Token: b.Token, Asked: b.Resign})
	}
	return list, err
}

// Elections implements engine.Driver. The server can't list them.
func (d *driver) Elections(context.Context) ([]string, error) { return nil, errors.ErrUnsupported }

// RequestResignation implements engine.Driver.
func (d *driver) RequestResignation(ctx context.Context, election string, token uint64) error {
	_, err := d.ask(ctx, "mark", server.Request{Election: d.name(election), Token: token})
	return err
}

// Clear implements engine.Driver.
func (d *driver) Clear(ctx context.Context, election string) error {
	_, err := d.ask(ctx, "clear", server.Request{Election: d.name(election)})
	return err
}

// Close implements engine.Driver.
func (d *driver) Close() error {
	d.stop()
	d.tasks.Wait()
	d.requests.CloseIdleConnections()
	d.renewals.CloseIdleConnections()
	return nil
}
