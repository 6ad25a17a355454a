package file

import (
	"context"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// overtaken is a line on which the first request is carried out after all others.
type overtaken struct {
	line
	sent  chan struct{} // closed when the first request is under way
	let   chan struct{} // closed when it may go on
	first bool          // it is to come; the test's goroutine changes it
}

func (o *overtaken) request(ctx context.Context, do func()) error {
	if o.first {
		o.first = false
		close(o.sent)
		<-o.let
	}
	return o.line.request(ctx, do)
}

// TestLateAcknowledgementIsRefused: an acknowledgement is overtaken by the next one, whose value stays.
func TestLateAcknowledgementIsRefused(t *testing.T) {
	d := driverWith(t, configIn(t.TempDir()+"/store"), kernel{})
	s := &enterer{t: t, s: sessionOf(t, d)}
	e := s.enter()
	o := &overtaken{line: d.line, sent: make(chan struct{}), let: make(chan struct{}), first: true}
	d.line = o
	late := make(chan error, 1)
	go func() { // late says when it has returned
		_, err := s.s.Acknowledge(soon(t), e, "first")
		late <- err
	}()
	<-o.sent
	_, err := s.s.Acknowledge(soon(t), e, "second")
	require.NoError(t, err)
	close(o.let)
	require.ErrorIs(t, <-late, store.ErrUnavailable)
	w, err := d.WatchLeader(soon(t), "e", func(n engine.News) {
		if n.State != nil {
			require.Equal(t, "second", n.State.Leader.Value)
		}
	})
	require.NoError(t, err)
	w.Stop()
}
