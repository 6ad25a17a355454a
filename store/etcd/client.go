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
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// connect makes the client. With a user that takes an answer from the cluster, because the client authenticates first.
func (d *driver) connect() {
	config := clientv3.Config{
		Endpoints: d.config.Endpoints,
		Username:  d.config.User, Password: atEachToken,
		TLS:         d.config.TLS,
		Context:     d.life.Background,
		DialTimeout: d.long() * 3 / 4, // of the authentication: a campaign can then still say why it fails
		Logger:      zap.NewNop(),     // what matters is in the store's errors
		// A connection that has died in silence is given up; the least that the library and servers allow.
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 5 * time.Second,
		DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(d.dial),
			// An endpoint that comes back must be found again soon; the default goes up to two minutes.
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
				MinConnectTimeout: d.long(),
			}),
			grpc.WithChainUnaryInterceptor(d.observe),
			grpc.WithIdleTimeout(0), // of a lifeline's connection: the store's is never idle
		},
	}
	if d.config.TLS != nil {
		config.DialOptions = append(config.DialOptions,
			grpc.WithTransportCredentials(security{credentials.NewTLS(d.config.TLS), d}))
	}
	var retries adapter.Retries
	for d.life.Background.Err() == nil {
		client, err := clientv3.New(config)
		switch {
		case err == nil:
			d.connects(func() { d.client, d.refused = client, nil })
			return
		case errors.Is(err, adapter.ErrPassword):
			d.connects(func() { d.refused = err })
		case errors.Is(explain(err), store.ErrDenied):
			d.connects(func() { d.refused = fmt.Errorf("%w: user %q: %w", store.ErrDenied, d.config.User, err) })
			adapter.PauseFor(d.life.Background, d.renewal()) // the user may yet be added
			continue
		default:
			d.connects(func() { d.refused = nil })
			if d.untroubled() {
				d.troubled(err)
			}
		}
		retries.Pause(d.life.Background)
	}
}

// atEachToken is the password that the client library knows. It asks for a token again and again, with the password that it
// was made with: observe puts the present one in its place.
const atEachToken = "the password of the moment"

// observe remembers why a request found no connection: the client library tells its caller only that time is up. If the
// answer is late, observe leaves the member. A request for a token gets the present password.
func (d *driver) observe(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
	opts ...grpc.CallOption,
) error {
	if auth, ok := req.(*pb.AuthenticateRequest); ok {
		password, err := d.config.PasswordFunc(ctx)
		if err != nil {
			return err
		}
		req = &pb.AuthenticateRequest{Name: auth.Name, Password: password}
	}
	var member peer.Peer
	sent := time.Now()
	err := invoke(ctx, method, req, reply, cc, append(opts[:len(opts):len(opts)], grpc.Peer(&member))...)
	if method == pb.Auth_Authenticate_FullMethodName {
		d.authenticated(err)
	}
	if err != nil && context.Cause(ctx) == errLate {
		d.disconnect(&member, sent)
	}
	switch status.Code(err) {
	case codes.OK:
		d.troubled(nil)
	case codes.Canceled:
	case codes.DeadlineExceeded:
		// The reason is known already, unless the message has the latest.
		if message := status.Convert(err).Message(); d.untroubled() || strings.Contains(message, "connection error") {
			d.troubled(errors.New(message))
		}
	default:
		d.troubled(errors.New(status.Convert(err).Message()))
	}
	return err
}

// authenticated notes how a request for a token went.
func (d *driver) authenticated(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err == nil:
		d.refusedSince = time.Time{}
	case errors.Is(rpctypes.Error(err), rpctypes.ErrAuthFailed) && d.refusedSince.IsZero():
		d.refusedSince = time.Now()
	}
}

// mayPass returns an error that says so of a refused password, for a TTL: while a password changes, the store might have
// another one than the cluster, and that costs no ballot.
func (d *driver) mayPass(err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !errors.Is(err, rpctypes.ErrAuthFailed) || time.Since(d.refusedSince) >= d.config.TTL {
		return err
	}
	return engine.Answered(fmt.Errorf("%w: %w", store.ErrUnavailable, err))
}

func (d *driver) untroubled() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.trouble == nil
}

// unreached says why nothing came before ctx ended.
func (d *driver) unreached(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	cause := context.Cause(ctx)
	if d.trouble == nil || errors.Is(cause, context.Canceled) || errors.Is(cause, store.ErrClosed) {
		return cause
	}
	if rest, ok := strings.CutPrefix(d.trouble.Error(), cause.Error()); ok { // the client library says so too
		return fmt.Errorf("%w%s", cause, rest)
	}
	return fmt.Errorf("%w: %w", cause, d.trouble)
}

// connects changes the driver's state and wakes the calls that wait for the client.
func (d *driver) connects(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
	close(d.changed)
	d.changed = make(chan struct{})
}

// connected returns the client as soon as there is one, and no connection is being made. So the time that this takes
// counts neither against a request nor against the lease, and a request without a connection is known not to be sent
// (TestFirstLeaseWaitsForTheConnection).
func (d *driver) connected(ctx context.Context) (*clientv3.Client, error) {
	for ctx.Err() == nil {
		d.mu.Lock()
		client, changed, refused := d.client, d.changed, d.refused
		d.mu.Unlock()
		switch {
		case refused != nil:
			return nil, refused
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
	err := d.unreached(ctx)
	if !errors.Is(err, store.ErrUnavailable) {
		err = fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return nil, err
}

// errNotConnected is the reason if a request is given up that was not sent.
var errNotConnected = fmt.Errorf("%w: there is no connection", store.ErrUnavailable)

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
	switch {
	case err == nil:
		return value, nil
	case ctx.Err() != nil:
		return none, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, d.unreached(ctx))
	}
	return none, d.because(d.mayPass(explain(err)))
}

// because returns the reason why there is no answer, if the reason is known, and otherwise the error. An error of the
// cluster's own is an answer, and is returned.
func (d *driver) because(err error) error {
	if _, ok := errors.AsType[rpctypes.EtcdError](err); ok || errors.Is(err, adapter.ErrPassword) {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, kind := range []error{store.ErrUnknownOutcome, store.ErrUnavailable} {
		if errors.Is(err, kind) && d.trouble != nil {
			return fmt.Errorf("%w: %w", kind, d.trouble)
		}
	}
	return err
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
	own := strings.HasPrefix(status.Convert(err).Message(), "etcdserver: ")
	if e, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		code, own = e.Code(), true
	}
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound), errors.Is(err, adapter.ErrPassword):
		return err
	case !own:
	case errors.Is(err, rpctypes.ErrInvalidAuthToken), errors.Is(err, rpctypes.ErrAuthOldRevision):
		return engine.Answered(fmt.Errorf("%w: %w", store.ErrUnavailable, err)) // the client library has got another token by now
	case errors.Is(err, rpctypes.ErrTooManyRequests), errors.Is(err, rpctypes.ErrNoSpace): // renewals go on
		return engine.Answered(fmt.Errorf("%w: %w", store.ErrUnavailable, err))
	case code == codes.PermissionDenied, code == codes.Unauthenticated,
		errors.Is(err, rpctypes.ErrAuthFailed), errors.Is(err, rpctypes.ErrUserEmpty):
		return fmt.Errorf("%w: %w", store.ErrDenied, err)
	case code == codes.ResourceExhausted, code == codes.FailedPrecondition:
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	case code == codes.InvalidArgument, code == codes.OutOfRange:
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err)
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
