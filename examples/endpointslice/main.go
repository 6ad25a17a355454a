// Endpointslice is an HTTP service in pods of Kubernetes, of which the leader answers. The Service has no selector:
// each new leader overwrites its EndpointSlice, before it acknowledges. endpointslice.yaml has what the cluster needs
// for that.
//
// A leader that is frozen, or cut off, stays in the EndpointSlice until the next one overwrites it. So each process
// asks IsLeader for each request. A process that wakes up later can't overwrite the EndpointSlice of a later leader.
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
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	_ "github.com/go-leadership/leadership/store/all"
)

func main() {
	where := flag.String("store", "etcd://etcd:2379/?ttl=10s", "`URL` of the store")
	service := flag.String("service", "primary", "`name` of the Service, and of the election")
	listen := flag.String("listen", ":8080", "`address` to listen on")
	self := flag.String("self", net.JoinHostPort(os.Getenv("POD_IP"), "8080"), "`address` of this pod")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	err := start(ctx, *where, *service, *listen, *self)
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

// start connects to everything, and runs until ctx ends.
func start(ctx context.Context, where, service, listen, self string) error {
	address, err := netip.ParseAddrPort(self)
	if err != nil {
		return err
	}
	c, err := inCluster("/var/run/secrets/kubernetes.io/serviceaccount", os.Getenv)
	if err != nil {
		return err
	}
	st, err := store.Open(ctx, where, &store.Options{Logger: slog.Default()})
	if err != nil {
		return err
	}
	defer st.Close()
	candidate, err := leadership.NewCandidate(st, service, self, nil)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: answer(candidate), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	err = run(ctx, candidate, c, service, address)
	_ = server.Close()
	<-served
	return err
}

// run stands for election until ctx ends. Each leader is in the EndpointSlice before it acknowledges.
func run(ctx context.Context, candidate *leadership.Candidate, c *cluster, service string, self netip.AddrPort) error {
	return candidate.Run(ctx, func(ctx context.Context, term *leadership.Term) error {
		if err := c.publish(ctx, service, self, term.Token()); err != nil {
			return err
		}
		return leadership.Lead(ctx, term)
	})
}

// answer answers requests while the candidate leads.
func answer(candidate *leadership.Candidate) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		term, leads := candidate.Term()
		if !leads {
			http.Error(w, "this process does not lead", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "%s answers with token %d\n", candidate.Value(), term.Token())
	}
}
