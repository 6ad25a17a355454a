package zookeeper

import (
	"errors"
	"io"
	"testing"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// Error codes of the server that the client library does not know are reported as text.
func TestExplain(t *testing.T) {
	for err, want := range map[error]error{
		zk.ErrNoAuth:                       store.ErrDenied,
		zk.ErrNoServer:                     store.ErrUnavailable,
		errors.New("unknown error: -127"):  store.ErrUnavailable, // throttled
		errors.New("unknown error: -4"):    store.ErrUnknownOutcome,
		zk.ErrConnectionClosed:             store.ErrUnknownOutcome,
		io.EOF:                             store.ErrUnknownOutcome,
		errors.New("read: broken, as raw"): store.ErrUnknownOutcome,
	} {
		require.ErrorIs(t, explain(err), want, "%v", err)
		require.ErrorIs(t, explain(err), err)
	}
	for _, certain := range []error{zk.ErrNoNode, zk.ErrNotEmpty, errors.New("unknown error: -122")} {
		require.False(t, adapter.Uncertain(explain(certain)), "%v", certain)
		require.False(t, store.Permanent(explain(certain)), "%v", certain)
	}
	require.NoError(t, explain(nil))
}
