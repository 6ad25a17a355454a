package haproxy

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/localdir"
	"github.com/go-leadership/leadership/status"
	"github.com/go-leadership/leadership/store"
	_ "github.com/go-leadership/leadership/store/etcd"
	_ "github.com/go-leadership/leadership/store/file"
)

// memberVariable makes the test binary a process behind HAProxy instead: its value is the name and the store's URL.
const memberVariable = "LEADERSHIP_TEST_MEMBER"

func TestMain(m *testing.M) {
	if text := os.Getenv(memberVariable); text != "" {
		name, url, _ := strings.Cut(text, " ")
		fmt.Fprintln(os.Stderr, serve(name, url))
		os.Exit(1)
	}
	if err := os.Setenv("TMPDIR", localdir.Temp()); err != nil { // for the stores in files
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	storetest.Main(m)
}

const election = "primary"

// line is what a process behind HAProxy writes on its standard output. One of the fields is set.
type line struct {
	Listens *listens `json:",omitempty"` // the first line
	Check   *check   `json:",omitempty"` // a check of HAProxy's has been answered
	Request *request `json:",omitempty"` // a request has arrived
}

// listens are the addresses of a process: for requests, and for checks.
type listens struct{ App, Status string }

// check is a check of HAProxy's.
type check struct{ By, Method, Proto string }

// request is a request of a client's, as the process that serves it judges it when it begins to serve it.
type request struct {
	Path      string
	Name      string        // of the process
	Token     uint64        // of its term; 0 without one
	Leads     bool          // what IsLeader said; if false, the process refuses the request
	Remaining time.Duration // of the lease
	Arrived   time.Time
}

// serve is a process behind HAProxy. It returns only if it fails.
func serve(name, url string) error {
	network := conformance.NewNetwork()
	st, err := store.Open(context.Background(), url, &store.Options{Dial: dialer(url, network)})
	if err != nil {
		return err
	}
	handler := status.New(status.Config{})
	c, err := leadership.NewCandidate(st, election, name, &leadership.CandidateOptions{Events: handler.Event})
	if err != nil {
		return err
	}
	handler.Candidate(c)
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	write := func(l line) {
		mu.Lock()
		defer mu.Unlock()
		_ = out.Encode(l)
	}

	app := http.NewServeMux()
	app.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		asked := request{Leads: c.IsLeader(), Remaining: c.Status().Remaining, Arrived: time.Now(), Path: r.URL.Path, Name: name}
		if term, leads := c.Term(); leads {
			asked.Token = term.Token()
		}
		write(line{Request: &asked})
		if !asked.Leads {
			w.WriteHeader(http.StatusMisdirectedRequest)
		}
		_ = json.NewEncoder(w).Encode(asked)
	})
	app.HandleFunc("/cut", func(http.ResponseWriter, *http.Request) { network.Cut() })
	checks := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		by := query.Get("by") // the test's own: the handler takes a margin alone
		query.Del("by")
		r.URL.RawQuery = query.Encode()
		handler.ServeHTTP(w, r)
		if by != "" {
			write(line{Check: &check{by, r.Method, r.Proto}})
		}
	})

	ended := make(chan error, 3)
	var addresses [2]string
	for i, h := range []http.Handler{app, checks} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		addresses[i] = l.Addr().String()
		go func() { ended <- http.Serve(l, h) }()
	}
	go func() {
		ended <- c.Run(context.Background(), func(ctx context.Context, term *leadership.Term) error {
			_ = term.Acknowledge(ctx) // if it fails, the term is over
			<-ctx.Done()
			return nil
		})
	}()
	write(line{Listens: &listens{addresses[0], addresses[1]}})
	return <-ended
}

// dialer returns the network as an option of a store: files need none.
func dialer(url string, network *conformance.Network) conformance.DialFunc {
	if strings.HasPrefix(url, "file:") {
		return nil
	}
	return network.Dial
}
