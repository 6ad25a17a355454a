package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// connect makes the client. If there is a user, the cluster must answer first: the client library authenticates.
func (d *driver) connect() {
	long := max(d.config.TTL, 5*time.Second)
	config := clientv3.Config{
		Endpoints: d.config.Endpoints,
		Username:  d.config.User, Password: atEachToken,
		TLS:         d.config.TLS,
		Context:     d.life.Background,
		DialTimeout: long * 3 / 4, // of the authentication
		Logger:      zap.NewNop(), // what matters is in the store's errors
		// A connection that has died in silence is given up; the least that the library and servers allow.
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 5 * time.Second,
		DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(d.dial),
			// An endpoint that comes back must be found again soon; the default goes up to two minutes.
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
				MinConnectTimeout: long,
			}),
			grpc.WithChainUnaryInterceptor(d.observe),
			grpc.WithIdleTimeout(0), // of a lifeline's connection: the store's is never idle
		},
	}
	if t := d.config.TLS; t != nil && t.ServerName != "" { // instead of the endpoint's name (TestTLS)
		config.DialOptions = append(config.DialOptions, grpc.WithAuthority(t.ServerName))
	}
	for d.life.Background.Err() == nil {
		client, err := clientv3.New(config)
		pause := time.Second
		switch {
		case err == nil:
			d.connects(client, nil)
			return
		case errors.Is(err, adapter.ErrPassword):
		case errors.Is(explain(err), store.ErrDenied):
			err = fmt.Errorf("%w: user %q: %w", store.ErrDenied, d.config.User, err)
			pause = d.renewal() // the user may yet be added
		default:
			err = d.hint(fmt.Errorf("%w: %w", store.ErrUnavailable, err))
		}
		d.connects(nil, err)
		adapter.PauseFor(d.life.Background, pause)
	}
}

// atEachToken is the password that the client library knows. The library asks for tokens with the password that it was made
// with: observe replaces atEachToken with the present one.
const atEachToken = "the password of the moment"

// observe gives a request for a token the present password. A request without a connection fails at once, and says why: the
// client library would wait, and say only that time is up. If the answer to a request is late, observe leaves the member.
func (d *driver) observe(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
	opts ...grpc.CallOption,
) error {
	auth, token := req.(*pb.AuthenticateRequest)
	if token {
		password, err := d.config.PasswordFunc(ctx)
		if err != nil {
			return err
		}
		req = &pb.AuthenticateRequest{Name: auth.Name, Password: password}
	}
	var member peer.Peer
	sent := time.Now()
	err := invoke(ctx, method, req, reply, cc, append(opts[:len(opts):len(opts)], grpc.Peer(&member), grpc.WaitForReady(false))...)
	if token {
		err = d.authenticated(err)
	}
	if err == nil || own(err) {
		d.answered.Store(true)
	} else if context.Cause(ctx) == errLate {
		disconnect(&member, sent)
	}
	return err
}

// authenticated returns the error of a request for a token. The refusal of a password that has changed passes for one TTL: the
// store and the cluster might have different ones meanwhile, and that costs no ballot.
func (d *driver) authenticated(err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err == nil:
		d.refusedSince = time.Time{}
	case d.client == nil, !errors.Is(rpctypes.Error(err), rpctypes.ErrAuthFailed):
	case d.refusedSince.IsZero():
		d.refusedSince = time.Now()
		fallthrough
	case time.Since(d.refusedSince) < d.config.TTL:
		return engine.Answered(fmt.Errorf("%w: %w", store.ErrUnavailable, rpctypes.Error(err)))
	}
	return err
}

// hint adds a question to an error if connections are made and the cluster has answered nothing so far: a newcomer might
// have chosen another port, or TLS on one side only. An error about a certificate shows TLS on both sides.
func (d *driver) hint(err error) error {
	d.mu.Lock()
	dialled := len(d.dialled) > 0
	d.mu.Unlock()
	if !dialled || d.answered.Load() || strings.Contains(err.Error(), "certificate") {
		return err
	}
	return adapter.HintTLS(fmt.Errorf("%w; is this the port for clients, 2379 by default?", err), "etcd", d.config.TLS != nil)
}

// connects notes the client, or why there is none, and wakes the calls that wait for the client.
func (d *driver) connects(client *clientv3.Client, noClient error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.client, d.noClient = client, noClient
	close(d.changed)
	d.changed = make(chan struct{})
}

// connected returns the client as soon as there is one, and no connection is being made. That time counts neither against a
// request nor against the lease, and a request without a connection is known not to be sent
// (TestFirstLeaseWaitsForTheConnection).
func (d *driver) connected(ctx context.Context) (*clientv3.Client, error) {
	for ctx.Err() == nil {
		d.mu.Lock()
		client, changed, noClient := d.client, d.changed, d.noClient
		d.mu.Unlock()
		switch {
		case noClient != nil:
			return nil, noClient
		case client == nil:
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		case client.Ctx().Err() != nil:
			return nil, errClientClosed // which the client library would find out in 2.5 s
		}
		conn := client.ActiveConnection()
		switch state := conn.GetState(); state {
		case connectivity.Idle:
			conn.Connect()
			fallthrough
		case connectivity.Connecting:
			conn.WaitForStateChange(ctx, state)
		default:
			return client, nil
		}
	}
	return nil, d.hint(fmt.Errorf("%w: %w", store.ErrUnavailable, context.Cause(ctx)))
}

// errNotConnected is why a request was not sent.
var errNotConnected = errors.New("no answer from any server")

// request sends one request and explains its error: ErrUnknownOutcome if it may have been carried out.
func request[T any](ctx context.Context, d *driver, send func(context.Context, *clientv3.Client) (T, error)) (T, error) {
	var none T
	limit := max(d.limit(), time.Second)
	connecting, cancel := context.WithTimeoutCause(ctx, limit, errNotConnected)
	client, err := d.connected(connecting)
	cancel()
	if err != nil {
		return none, err
	}
	attempt, cancel := context.WithTimeoutCause(ctx, limit, errLate)
	defer cancel()
	value, err := send(attempt, client)
	if err == nil {
		return value, nil
	}
	err = explain(err)
	if errors.Is(err, store.ErrUnknownOutcome) {
		if attempt.Err() != nil { // the client library says only that time is up
			err = fmt.Errorf("%w: %w", store.ErrUnknownOutcome, context.Cause(attempt))
		}
		err = d.hint(err)
	}
	return none, err
}

// errClientClosed says that the program has closed the client of Config.Client.
var errClientClosed = fmt.Errorf("%w: the caller has closed its client", store.ErrClosed)

// explain turns an error of the client library into an error of package store or engine. Only the cluster itself denies a
// request, or says that the request was not carried out. A gateway, which answers with a status of HTTP, might have passed
// the request on.
func explain(err error) error {
	if err == nil {
		return nil
	}
	err = rpctypes.Error(err)
	code := status.Code(err)
	if e, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		code = e.Code()
	}
	switch {
	case errors.Is(err, store.ErrUnavailable): // observe has explained it
		return err
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return fmt.Errorf("%w: %w", engine.ErrOver, err)
	case !own(err):
	case errors.Is(err, rpctypes.ErrInvalidAuthToken), errors.Is(err, rpctypes.ErrAuthOldRevision), // there is another token by now
		code == codes.ResourceExhausted: // there is no space, or too many requests; renewals go on
		return engine.Answered(fmt.Errorf("%w: %w", store.ErrUnavailable, err))
	case code == codes.PermissionDenied, code == codes.Unauthenticated,
		errors.Is(err, rpctypes.ErrAuthFailed), errors.Is(err, rpctypes.ErrUserEmpty):
		return fmt.Errorf("%w: %w", store.ErrDenied, err)
	case code == codes.InvalidArgument, code == codes.OutOfRange:
		return err
	}
	return fmt.Errorf("%w: %s", store.ErrUnknownOutcome, status.Convert(err).Message())
}

// own reports whether an error is an answer of the cluster itself.
func own(err error) bool {
	_, known := errors.AsType[rpctypes.EtcdError](rpctypes.Error(err))
	return known || strings.HasPrefix(status.Convert(err).Message(), "etcdserver: ")
}

// refusal is the error of a watch that the cluster did not set, from the text that it gives as the reason.
func (d *driver) refusal(reason string) error {
	if _, description, ok := strings.Cut(reason, "desc = "); ok {
		reason = description
	}
	err := explain(errors.New(reason))
	if errors.Is(err, rpctypes.ErrUserEmpty) && d.client.Username != "" {
		// The stream is from before the cluster's authentication was enabled.
		return fmt.Errorf("%w: %w", store.ErrUnavailable, rpctypes.ErrUserEmpty)
	}
	return err
}
