package agent

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"
)

// sending is a request that has a caller. It may be sent until the caller leaves: whichever comes first.
type sending struct {
	cancel context.CancelFunc // of its context
	state  atomic.Int32
	agent  atomic.Pointer[tracked] // the connection that it got; nil before, and with a client of the caller's
}

type sendingKey struct{}

const (
	waiting int32 = iota // for a connection
	sent                 // or about to be
	left
)

// trace returns a context for the request's client.
func (s *sending) trace(ctx context.Context) context.Context {
	ctx = context.WithValue(ctx, sendingKey{}, s)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if conn, ok := info.Conn.(*tracked); ok {
			s.agent.Store(conn)
		}
		if !s.state.CompareAndSwap(waiting, sent) && s.state.Load() == left {
			_ = info.Conn.Close() // before a byte of the request is written
		}
	}})
}

// leave says that the caller has left, and reports whether the request has not been sent, and will not be.
func (s *sending) leave() bool {
	if !s.state.CompareAndSwap(waiting, left) {
		return false
	}
	s.cancel()
	return true
}
