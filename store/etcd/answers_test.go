package etcd

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// between does things before and after each transaction. A nil function does nothing.
type between struct {
	before atomic.Pointer[func(*pb.TxnRequest) error]
	after  atomic.Pointer[func(*pb.TxnResponse)]
}

func (b *between) intercept(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
	opts ...grpc.CallOption,
) error {
	if before := b.before.Load(); before != nil && strings.HasSuffix(method, "/Txn") {
		if err := (*before)(req.(*pb.TxnRequest)); err != nil {
			return err
		}
	}
	err := invoke(ctx, method, req, reply, cc, opts...)
	if after := b.after.Load(); after != nil && err == nil && strings.HasSuffix(method, "/Txn") {
		(*after)(reply.(*pb.TxnResponse))
	}
	return err
}

// An answer in which parts are missing says nothing: it might come from a gateway.
func TestAnswerInParts(t *testing.T) {
	t.Parallel()
	var b between
	d, _ := opened(t, b.intercept)
	for name, leaveOut := range map[string]func(*pb.TxnResponse){
		"the header":           func(r *pb.TxnResponse) { r.Header = nil },
		"all results":          func(r *pb.TxnResponse) { r.Responses = nil },
		"one of the responses": func(r *pb.TxnResponse) { r.Responses = r.Responses[1:] },
	} {
		b.after.Store(&leaveOut)
		_, err := d.Ballots(soon(t), "x")
		require.ErrorIs(t, err, store.ErrUnknownOutcome, name)
	}
	b.after.Store(nil)
	_, err := d.Ballots(soon(t), "x")
	require.NoError(t, err)
}

// RequestResignation marks the ballot of the token and nothing else: no key that is no ballot, and no ballot that has the
// same key since.
func TestOnlyTheBallotOfTheTokenIsMarked(t *testing.T) {
	t.Parallel()
	var b between
	d, s := opened(t, b.intercept)
	key := d.layout.dir("x") + ballotName(s.id, "n")
	put := func(key string) uint64 {
		t.Helper()
		resp, err := d.change(soon(t), nil, clientv3.OpPut(key, "v", s.onLease()))
		require.NoError(t, err)
		return uint64(resp.Header.Revision)
	}
	version := func(key string) int64 {
		t.Helper()
		found, _, err := d.read(soon(t), nil, clientv3.OpGet(key))
		require.NoError(t, err)
		return first(found[0]).GetVersion()
	}
	notes := d.layout.dir("x") + "notes"
	require.NoError(t, d.RequestResignation(soon(t), "x", put(notes)))
	require.EqualValues(t, 1, version(notes))

	token := put(key)
	var asked atomic.Int32
	count := func(*pb.TxnRequest) error { asked.Add(1); return nil }
	b.before.Store(&count)
	require.NoError(t, d.RequestResignation(soon(t), "x", 0))
	require.Zero(t, asked.Load(), "no ballot has this token")

	again := func(r *pb.TxnRequest) error {
		if r.Success[0].GetRequestPut() != nil { // the mark is on its way
			b.before.Store(nil)
			_, err := d.change(soon(t), nil, clientv3.OpDelete(key))
			require.NoError(t, err)
			put(key)
		}
		return nil
	}
	b.before.Store(&again)
	require.NoError(t, d.RequestResignation(soon(t), "x", token))
	require.Nil(t, b.before.Load())
	require.EqualValues(t, 1, version(key))
}
