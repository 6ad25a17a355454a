package grpcresolver_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/contrib/grpcresolver"
	"github.com/go-leadership/leadership/store"
	_ "github.com/go-leadership/leadership/store/memory"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// A client that calls the leader. Here the leader is in the same process.
func Example() {
	ctx := context.Background()
	st, err := store.Open(ctx, "memory://grpcresolver?ttl=10s", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	stop := lead(ctx, st)
	defer stop()

	f, err := leadership.NewFollower(st, "database/primary", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Stop()
	conn, err := grpc.NewClient("leadership:///database/primary",
		grpc.WithResolvers(grpcresolver.NewBuilder(f, nil)),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.WaitForReady(true))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Status)
	// Output: SERVING
}

// lead serves, and leads until stop is called. The value of the candidate is the address of the server.
func lead(ctx context.Context, st store.Store) (stop func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	c, err := leadership.NewCandidate(st, "database/primary", l.Addr().String(), nil)
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(whileLeading(c)))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	go server.Serve(l)
	go c.Run(ctx, leadership.Lead)
	return func() {
		c.Stop()
		<-c.Done()
		server.Stop()
	}
}

// whileLeading refuses calls while the candidate does not lead. The context of a call ends with the term.
func whileLeading(c *leadership.Candidate) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		term, leads := c.Term()
		if !leads {
			return nil, status.Error(codes.Unavailable, "this process does not lead")
		}
		ctx, cancel := term.Bind(ctx)
		defer cancel()
		return handle(ctx, request)
	}
}
