package all_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
)

// A read or Clear with a deadline returns why the store can't be reached, not only that the deadline has passed.
func TestReadsSayWhyThereIsNoAnswer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close()) // nothing listens there now
	for _, kind := range []string{"zookeeper", "etcd", "consul"} {
		for name, read := range map[string]func(context.Context, store.Store) error{
			"the leader": func(ctx context.Context, st store.Store) error {
				_, err := storetest.Leader(ctx, st, "e", nil)
				return err
			},
			"the ballots": func(ctx context.Context, st store.Store) error { _, err := st.Ballots(ctx, "e"); return err },
			"clear":       func(ctx context.Context, st store.Store) error { return st.Clear(ctx, "e") },
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				st := open(t, kind+"://"+listener.Addr().String(), nil)
				eventually(t, func() bool {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					err := read(ctx, st)
					require.ErrorIs(t, err, context.DeadlineExceeded)
					return strings.Contains(err.Error(), "connection refused")
				}, "it says why")
			})
		}
	}
}
