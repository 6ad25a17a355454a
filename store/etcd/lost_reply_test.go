package etcd_test

import (
	"context"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/stretchr/testify/require"
)

// If the context of a call ends before the answer comes, the error says that the request might have been carried out.
func TestContextEndsBeforeTheReply(t *testing.T) {
	t.Parallel()
	election := newElection()
	tp := newTap(t)
	st := open(t, etcd.Config{Client: tp.client, TTL: long})
	b := castFirst(t, st, election, "own")
	endsEarly := func(kind string, call func(ctx context.Context) error) {
		reply := tp.catch(t, "Txn", kind, election)
		ctx, cancel := context.WithCancel(soon(t))
		ended := make(chan error, 1)
		go func() { ended <- call(ctx) }()
		receive(t, reply.caught, "the reply")
		cancel()
		err := receive(t, ended, "the end of the call")
		require.ErrorIs(t, err, store.ErrUnknownOutcome)
		require.ErrorIs(t, err, context.Canceled)
	}
	endsEarly("request_put", func(ctx context.Context) error { _, err := b.Acknowledge(ctx, "own"); return err })
	endsEarly("request_delete_range", b.Withdraw)
	require.Empty(t, values(t, st, election))
}
