package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// connect makes the client. With a user that takes an answer from the cluster, because the client authenticates first.
func (s *Store) connect() {
	config := clientv3.Config{
		Endpoints: s.config.Endpoints,
		Username:  s.config.User, Password: s.password(),
		TLS:         s.config.TLS,
		Context:     s.life.Background,
		DialTimeout: s.long() / 2, // of the authentication: a campaign can then still say why it fails; doubled below
		Logger:      zap.New(slogCore{to: s.config.Logger}),
		DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(s.dial),
			// An endpoint that comes back must be found again soon; the default goes up to two minutes.
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
				MinConnectTimeout: s.long(),
			}),
			// A connection that has died in silence is given up; the least that the library and servers allow.
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
			grpc.WithChainUnaryInterceptor(s.observe),
		},
	}
	if s.config.TLS != nil {
		config.DialOptions = append(config.DialOptions,
			grpc.WithTransportCredentials(security{credentials.NewTLS(s.config.TLS), s}))
	}
	for s.life.Background.Err() == nil {
		client, err := clientv3.New(config)
		switch {
		case err == nil:
			s.set(func() { s.client, s.refused = client, nil })
			return
		case errors.Is(explain(err), store.ErrDenied):
			s.set(func() { s.refused = fmt.Errorf("%w: user %q: %w", store.ErrDenied, s.config.User, err) })
			adapter.PauseFor(s.life.Background, s.renewal()) // the user may yet be added
			continue
		case s.untroubled():
			s.troubled(err)
		}
		config.DialTimeout = min(2*config.DialTimeout, 4*s.long()) // a slow line takes several round trips
		adapter.Pause(s.life.Background)
	}
}

// observe remembers why a request found no connection: the client library tells its caller only that time is up.
func (s *Store) observe(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
	opts ...grpc.CallOption,
) error {
	var member peer.Peer
	sent := time.Now()
	err := invoke(ctx, method, req, reply, cc, append(opts[:len(opts):len(opts)], grpc.Peer(&member))...)
	if err != nil && time.Since(sent) > s.requestSilence()*9/10 { // it began to wait a little earlier
		s.hangUp(&member, sent)
	}
	switch status.Code(err) {
	case codes.OK:
		s.troubled(nil)
	case codes.Canceled:
	case codes.DeadlineExceeded:
		// The reason is known already, unless the message has the latest.
		if message := status.Convert(err).Message(); s.untroubled() || strings.Contains(message, "connection error") {
			s.troubled(errors.New(message))
		}
	default:
		s.troubled(errors.New(status.Convert(err).Message()))
	}
	return err
}

func (s *Store) untroubled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trouble == nil
}

// unreached says why nothing came before ctx ended.
func (s *Store) unreached(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	cause := context.Cause(ctx)
	if s.trouble == nil || errors.Is(cause, context.Canceled) || errors.Is(cause, store.ErrClosed) {
		return cause
	}
	return fmt.Errorf("%w: %w", cause, s.trouble)
}

// because adds why the attempt before failed to an error that says only that the service is unavailable, or that time
// was up: the last attempt was cut short.
func because(err, last error) error {
	short := err == store.ErrUnavailable || strings.HasSuffix(err.Error(), context.DeadlineExceeded.Error())
	if last != nil && short && errors.Is(err, store.ErrUnavailable) {
		return fmt.Errorf("%w: %w", err, last)
	}
	return err
}

// connected returns the client as soon as there is one.
func (s *Store) connected(ctx context.Context) (*clientv3.Client, error) {
	for {
		s.mu.Lock()
		client, changed, refused := s.client, s.changed, s.refused
		s.mu.Unlock()
		switch {
		case refused != nil:
			return nil, refused
		case client != nil && client.Ctx().Err() != nil && ctx.Err() == nil:
			return nil, errClientClosed // which the client library would find out in 2.5 s
		case client != nil:
			return client, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, s.unreached(ctx)
		}
	}
}

// A request that is not answered in time is given up, since the next one goes to another endpoint. The time grows
// while none is answered, so that a slow cluster is one that answers late. It is mostPatience at most, unless the line
// is known to be slower.
const mostPatience = 10 * time.Second

// requestSilence is for how long a member may owe the answer to a request. A second is nothing to a busy member that is
// the only one.
func (s *Store) requestSilence() time.Duration {
	least := s.config.TTL / 5
	if s.alone() {
		least = max(least, time.Second)
	}
	return s.silence(min(least, mostPatience))
}

// request sends one request and explains its error: ErrUnknownOutcome wherever it may have been carried out.
func request[T any](ctx context.Context, s *Store, send func(context.Context, clientv3.KV) (T, error)) (T, error) {
	var none T
	client, err := s.connected(ctx)
	if err != nil {
		return none, err
	}
	limit := s.requestSilence()
	s.mu.Lock()
	limit = max(limit, min(s.allowed, mostPatience))
	s.mu.Unlock()
	attempt, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	sent := time.Now()
	value, err := send(attempt, clientv3.NewKV(client))
	s.mu.Lock()
	switch {
	case err == nil:
		s.allowed = 2 * time.Since(sent)
	case attempt.Err() != nil && ctx.Err() == nil:
		s.allowed = 2 * limit
	}
	s.mu.Unlock()
	switch {
	case err == nil:
		return value, nil
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), store.ErrUnavailable):
		return none, s.unreached(ctx)
	case ctx.Err() != nil:
		return none, fmt.Errorf("%w: %w", store.ErrUnknownOutcome, s.unreached(ctx))
	case client.Ctx().Err() != nil:
		return none, errClientClosed
	}
	return none, explain(err)
}

// errClientClosed says that the caller has closed the client that it handed in.
var errClientClosed = fmt.Errorf("%w: so is the caller's client", store.ErrClosed)

// explain says of an error what callers decide on. Only the cluster itself denies a request, or says that it was not
// carried out: something in between, which answers with a status of HTTP, might have passed the request on.
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
	case errors.Is(err, rpctypes.ErrLeaseNotFound), errors.Is(err, rpctypes.ErrLeaseExist):
		return err
	case !own:
	case errors.Is(err, rpctypes.ErrInvalidAuthToken), errors.Is(err, rpctypes.ErrAuthOldRevision):
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err) // the client library has got another token by now
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

// slogCore hands the client library's messages on. They hold addresses and errors, no credentials.
type slogCore struct {
	to     *slog.Logger
	fields []zapcore.Field
}

func (c slogCore) Enabled(zapcore.Level) bool {
	return c.to.Enabled(context.Background(), slog.LevelDebug)
}

func (c slogCore) With(fields []zapcore.Field) zapcore.Core {
	return slogCore{c.to, append(c.fields[:len(c.fields):len(c.fields)], fields...)}
}

func (c slogCore) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return checked.AddCore(e, c)
	}
	return checked
}

func (c slogCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	encoder := zapcore.NewMapObjectEncoder()
	for _, f := range append(c.fields[:len(c.fields):len(c.fields)], fields...) {
		f.AddTo(encoder)
	}
	args := []any{"level", e.Level.String()}
	for name, value := range encoder.Fields {
		args = append(args, name, value)
	}
	c.to.Debug(e.Message, args...)
	return nil
}

func (c slogCore) Sync() error { return nil }

// refusal is the error of a watch that the cluster did not set, from the text that it gives as the reason.
func (s *Store) refusal(reason string) error {
	if _, description, ok := strings.Cut(reason, "desc = "); ok {
		reason = description
	}
	err := explain(errors.New(reason))
	if errors.Is(err, rpctypes.ErrUserEmpty) && s.client.Username != "" {
		// The stream is from before the cluster's authentication was enabled.
		return fmt.Errorf("%w: %w", store.ErrUnavailable, rpctypes.ErrUserEmpty)
	}
	return err
}
