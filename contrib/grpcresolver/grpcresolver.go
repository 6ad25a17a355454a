// Package grpcresolver resolves the leader of an election for clients of gRPC: their calls go to the leader.
//
//	f, err := leadership.NewFollower(st, "database/primary", nil)
//	conn, err := grpc.NewClient("leadership:///database/primary",
//		grpc.WithResolvers(grpcresolver.NewBuilder(f, nil)), ...)
//
// The target names the election. A process that follows several elections has a follower, a builder and a connection
// for each. The builder starts the follower, and does not stop it.
//
// While there is no leader, calls fail with codes.Unavailable, and calls with grpc.WaitForReady wait for the next
// leader. Before the store has answered for the first time, all calls wait. When the follower ends, calls fail with
// codes.Unavailable and its error: it would not hear of the next leader.
//
// While the store does not answer, calls go to the leader that was known last, since that leader might lead on.
// Follower.Fresh tells that the knowledge is old. So a call can reach a process that does not lead any more, as it can
// when the client learns of a change late. The server has to refuse such a call: it asks Candidate.IsLeader, and gives
// its fencing token to what it writes to.
//
// Calls and streams that have begun when the leader changes go on. The server ends its streams when its term ends.
//
// With TLS, the certificate of a server has to be that of its address. grpc.WithAuthority asks for another name.
package grpcresolver

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/go-leadership/leadership"
	"google.golang.org/grpc/resolver"
)

// Scheme is the scheme of the targets: "leadership:///database/primary". url.PathEscape escapes names with "%", "?" or
// "#".
const Scheme = "leadership"

// NewBuilder returns a builder of resolvers that follow the election of the follower, for grpc.WithResolvers. They
// refuse targets with the name of another election.
//
// The address function returns the address of a leader's gRPC server: "dbhost2:4567". If it fails or panics, calls fail
// as without a leader, with its error. It must not block. Nil stands for the value of the leader.
func NewBuilder(f *leadership.Follower, address func(leadership.Leader) (string, error)) resolver.Builder {
	if f == nil {
		panic("grpcresolver: the follower is nil")
	}
	if address == nil {
		address = func(leader leadership.Leader) (string, error) { return leader.Value, nil }
	}
	return &builder{follower: f, address: address}
}

type builder struct {
	follower *leadership.Follower
	address  func(leadership.Leader) (string, error)
}

func (b *builder) Scheme() string { return Scheme }

// Build starts a resolver. gRPC calls it again when a connection that was idle is used.
func (b *builder) Build(target resolver.Target, conn resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	if target.URL.Host != "" || target.Endpoint() != b.follower.Election() {
		return nil, fmt.Errorf("target %q is not %s:///%s", target.URL.String(), Scheme, b.follower.Election())
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &following{builder: b, conn: conn, ctx: ctx, cancel: cancel, done: make(chan struct{})}
	go r.follow()
	return r, nil
}

// following is a resolver: it tells one connection of the leaders.
type following struct {
	*builder
	conn   resolver.ClientConn
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	done   chan struct{} // closed by follow when it has ended
	told   bool          // the connection has an address; belongs to follow
}

// ResolveNow does nothing: the follower is told of changes.
func (r *following) ResolveNow(resolver.ResolveNowOptions) {}

func (r *following) Close() {
	r.cancel()
	<-r.done
}

// follow tells of each leader until Close, or until the follower has ended.
func (r *following) follow() {
	defer close(r.done)
	defer func() {
		if r.ctx.Err() == nil {
			r.tellNone(cmp.Or(r.follower.Err(), errors.New("the address function called runtime.Goexit")))
		}
	}()
	for leader := range r.follower.Changes(r.ctx) {
		r.tell(leader)
	}
}

// tell tells of a leader. The name of the server is its address, and not that of the election.
func (r *following) tell(leader leadership.Leader) {
	address, err := r.addressOf(leader)
	if err != nil {
		r.tellNone(err)
		return
	}
	r.told = true
	// An error is of no use here: the same state again would lead to the same error.
	_ = r.conn.UpdateState(resolver.State{Addresses: []resolver.Address{{Addr: address, ServerName: address}}})
}

// tellNone tells that there is no address, and why. After an error alone calls would still go to the address that was
// told before, so an empty state comes first. gRPC answers the empty state with an error, and heeds it.
func (r *following) tellNone(err error) {
	if r.told {
		r.told = false
		_ = r.conn.UpdateState(resolver.State{})
	}
	r.conn.ReportError(fmt.Errorf("leadership: election %q: %w", r.follower.Election(), err))
}

// addressOf returns the address of a leader.
func (r *following) addressOf(leader leadership.Leader) (address string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the address function panicked: %v", p)
		}
	}()
	if leader.Revision == 0 {
		return "", errors.New("there is no leader")
	}
	address, err = r.address(leader)
	if err == nil && address == "" {
		err = errors.New("the address of the leader is empty")
	}
	return address, err
}
