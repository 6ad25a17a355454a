package agent

import (
	"context"
	"net"
	"net/http/httptrace"
	"testing"

	"github.com/stretchr/testify/require"
)

// If the caller leaves before its request has a connection, a connection that it gets later is closed before anything
// is written. A request that has been sent goes on.
func TestUnsentRequestLeavesWithItsCaller(t *testing.T) {
	for _, sent := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		s := &sending{cancel: cancel}
		ours, theirs := net.Pipe()
		gotConn := func() {
			httptrace.ContextClientTrace(s.trace(t.Context())).GotConn(httptrace.GotConnInfo{Conn: ours})
		}
		if sent {
			gotConn()
		}
		require.Equal(t, !sent, s.leave())
		require.Equal(t, sent, ctx.Err() == nil)
		gotConn() // of another try
		go func() { _, _ = theirs.Read(make([]byte, 1)); _ = theirs.Close() }()
		_, err := ours.Write([]byte{0})
		require.Equal(t, sent, err == nil)
		_ = ours.Close()
		_ = theirs.Close()
		cancel()
	}
}
