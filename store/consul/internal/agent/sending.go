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
}

const (
	waiting int32 = iota // for a connection
	sent                 // or about to be
	left
)

// trace returns a context for the request's client.
func (s *sending) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
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
