package etcd

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Only an answer of the cluster itself proves that a request was denied, or not carried out. An error from a proxy in
// between might come after the proxy has passed the request on.
func TestWhatAnErrorMeans(t *testing.T) {
	for _, code := range []codes.Code{
		codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented, codes.ResourceExhausted, codes.FailedPrecondition,
		codes.InvalidArgument, codes.OutOfRange, codes.Unavailable, codes.Internal, codes.Unknown,
	} {
		err := explain(status.Error(code, "unexpected HTTP status code received from server"))
		require.ErrorIs(t, err, store.ErrUnknownOutcome, code)
		require.NotErrorIs(t, err, store.ErrUnavailable, code)
		require.NotErrorIs(t, err, store.ErrDenied, code)
	}
	for _, denied := range []error{rpctypes.ErrGRPCPermissionDenied, rpctypes.ErrGRPCAuthFailed, rpctypes.ErrGRPCUserEmpty} {
		require.ErrorIs(t, explain(denied), store.ErrDenied)
	}
	for _, refused := range []error{
		rpctypes.ErrGRPCInvalidAuthToken, rpctypes.ErrGRPCAuthOldRevision, rpctypes.ErrGRPCNoSpace, rpctypes.ErrGRPCRequestTooManyRequests,
	} {
		require.ErrorIs(t, explain(refused), store.ErrUnavailable)
		require.IsType(t, engine.Answered(refused), explain(refused), "no outage")
	}
	require.ErrorIs(t, explain(rpctypes.ErrGRPCLeaseNotFound), rpctypes.ErrLeaseNotFound)
	require.ErrorIs(t, explain(rpctypes.ErrGRPCTimeout), store.ErrUnknownOutcome)
	for _, final := range []error{rpctypes.ErrGRPCRequestTooLarge, rpctypes.ErrGRPCCompacted} {
		require.NotErrorIs(t, explain(final), store.ErrUnknownOutcome, "such a request never succeeds")
		require.NotErrorIs(t, explain(final), store.ErrUnavailable)
	}
}

// TestDeadlineIsSaidOnce: the client library might give the deadline itself as the reason for no answer.
func TestDeadlineIsSaidOnce(t *testing.T) {
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	for reason, text := range map[string]string{
		"context deadline exceeded":                    "context deadline exceeded",
		"context deadline exceeded while it connected": "context deadline exceeded while it connected",
		"connection refused":                           "context deadline exceeded: connection refused",
	} {
		err := (&driver{trouble: errors.New(reason)}).unreached(ctx)
		require.EqualError(t, err, text)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
}

// Each way in which one side that speaks TLS meets one that does not: which of them it is depends on who hangs up first.
func TestWhatLooksLikeTLSOnOneSide(t *testing.T) {
	require.False(t, looksMismatched(nil))
	for text, want := range map[string]bool{
		"authentication handshake failed: EOF":                                                  true,
		"authentication handshake failed: read tcp: connection reset by peer":                   true,
		"authentication handshake failed: tls: first record does not look like a TLS handshake": true,
		"authentication handshake failed: x509: certificate signed by unknown authority":        false,
		"error reading server preface: EOF":                                                     true,
		"error reading server preface: " + errNoAnswer.Error():                                  false,
		"read tcp: connection reset by peer":                                                    false,
	} {
		require.Equal(t, want, looksMismatched(errors.New(text)), text)
	}
}

// If connections end during the handshake, a store that has never worked asks whether the server speaks TLS. A store
// that has worked does not.
func TestNoQuestionAboutTLSAfterAnAnswer(t *testing.T) {
	d := watching()
	ended := errors.New("error reading server preface: EOF")
	d.troubled(ended)
	require.ErrorContains(t, d.trouble, "TLS")
	d.troubled(nil)
	require.NoError(t, d.trouble)
	d.troubled(ended)
	require.Equal(t, ended, d.trouble)
}
