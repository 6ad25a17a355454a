// Redirect is an HTTP service of many processes, of which the leader answers. The others redirect to it. Start as many as
// you like:
//
//	redirect -store 'etcd://10.0.0.1:2379/?ttl=10s' -listen :8080 -url http://10.0.0.7:8080
//	curl -L http://10.0.0.8:8080/
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	_ "github.com/go-leadership/leadership/store/all"
)

func main() {
	where := flag.String("store", "file:///dev/shm/redirect?ttl=5s", "`URL` of the store")
	listen := flag.String("listen", "127.0.0.1:8080", "`address` to listen on")
	self := flag.String("url", "http://127.0.0.1:8080", "`URL` by which clients reach this process")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	l, err := net.Listen("tcp", *listen)
	if err == nil {
		err = run(ctx, *where, l, *self)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run serves on l until ctx ends.
func run(ctx context.Context, where string, l net.Listener, self string) error {
	st, err := store.Open(ctx, where, &store.Options{Logger: slog.Default()})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	defer st.Close()
	s, err := newService(st, self)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() {
		_ = server.Close()
		<-served
	}()
	err = s.run(ctx)
	if ctx.Err() != nil {
		return nil // a signal
	}
	return err
}

// service is one process of the service.
type service struct {
	self      string // the URL by which clients reach this process
	candidate *leadership.Candidate
	follower  *leadership.Follower
}

func newService(st store.Store, self string) (*service, error) {
	if u, err := url.Parse(self); err != nil || u.Host == "" {
		return nil, fmt.Errorf("%q is not an absolute URL", self)
	}
	c, err := leadership.NewCandidate(st, "redirect", self, nil)
	if err != nil {
		return nil, err
	}
	f, err := leadership.NewFollower(st, "redirect", nil)
	if err != nil {
		return nil, err
	}
	return &service{self: self, candidate: c, follower: f}, nil
}

// run stands for election and follows it, until ctx ends. It acknowledges as soon as it leads.
func (s *service) run(ctx context.Context) error {
	s.follower.Start()
	defer func() {
		s.follower.Stop()
		<-s.follower.Done()
	}()
	return s.candidate.Run(ctx, leadership.Lead)
}

// ServeHTTP answers if this process leads. The request's context then ends with the term.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	term, leads := s.candidate.Term()
	if !leads {
		s.redirect(w, r)
		return
	}
	ctx, cancel := term.Bind(r.Context())
	defer cancel()
	answer(w, r.WithContext(ctx), s.self, term.Token())
}

// answer stands for the service's work. What it writes to gets the token, and refuses lower ones than the highest that it
// has seen.
func answer(w http.ResponseWriter, r *http.Request, self string, token uint64) {
	fmt.Fprintf(w, "%s answers %s with token %d\n", self, r.URL.Path, token)
}

// redirect sends the client to the leader, with the same method and body. Without a leader, the client tries again.
func (s *service) redirect(w http.ResponseWriter, r *http.Request) {
	leader, ok := s.follower.Leader()
	to, err := url.Parse(leader.Value)
	if !ok || err != nil || leader.Value == s.self { // this process has just begun to lead, or has just ended
		w.Header().Set("Retry-After", "1")
		http.Error(w, "no leader at the moment", http.StatusServiceUnavailable)
		return
	}
	target := url.URL{Scheme: to.Scheme, Host: to.Host, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
	http.Redirect(w, r, target.String(), http.StatusTemporaryRedirect)
}
