package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/peer"
)

// watch keeps the stream of watches: there is one while there is something to watch.
func (s *Store) watch() {
	for {
		select {
		case <-s.watches.queued:
		case <-s.life.Background.Done():
			s.watches.breakOff(store.ErrClosed)
			return
		}
		err := s.stream()
		s.watches.breakOff(err)
		if s.life.Background.Err() == nil {
			s.config.Logger.Debug("watches were interrupted", "store", s.life.Name, "error", err)
			adapter.Pause(s.life.Background)
		}
	}
}

// stream opens one stream, sends what is asked for and handles what comes, until it breaks. An error that is for good
// is explained.
func (s *Store) stream() error {
	client, err := s.connected(s.life.Background)
	if err != nil {
		return err
	}
	err = s.streamOf(client)
	if client.Ctx().Err() != nil {
		return errClientClosed
	}
	if explained := explain(err); store.Refused(explained) {
		return explained
	}
	return err
}

// errSilent says that the stream of watches has been given up.
var errSilent = errors.New("no answer on the stream of watches")

func (s *Store) streamOf(client *clientv3.Client) error {
	// A member that has no leader ends the stream, instead of keeping it open without news.
	ctx, cancel := context.WithCancelCause(clientv3.WithRequireLeader(s.life.Background))
	stop := func(err error) { cancel(err) }
	defer stop(nil)
	stream, err := pb.NewWatchClient(client.ActiveConnection()).Watch(ctx)
	if err != nil {
		return err
	}
	var receiver sync.WaitGroup
	defer receiver.Wait()
	defer stop(nil)
	receiver.Go(func() {
		for {
			resp, err := stream.Recv()
			if err == nil {
				err = s.handle(resp)
			}
			if err != nil {
				stop(err)
				return
			}
		}
	})
	member, _ := peer.FromContext(stream.Context())
	ear := ear{store: s, line: s.lineTo(member)}
	ticker := time.NewTicker(ear.interval())
	defer ticker.Stop()
	for {
		for _, r := range s.watches.take() {
			if err := stream.Send(r); err != nil {
				<-ctx.Done() // the receiver learns why
				return context.Cause(ctx)
			}
		}
		select {
		case <-s.watches.queued:
		case <-ticker.C:
			switch {
			case s.watches.silent():
				return errSilent
			case ear.silent():
				s.hangUp(member, ear.since)
				return errSilent
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// handle does what a message of the cluster says. It returns an error if the stream is of no use any more.
func (s *Store) handle(resp *pb.WatchResponse) error {
	if resp.Header == nil {
		return errMalformed
	}
	ws := &s.watches
	var confirmed *mark
	defer func() {
		if confirmed != nil {
			s.told(confirmed.sent)
		}
	}()
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.messages, ws.asked = ws.messages+1, false
	switch {
	case resp.Created:
		if len(ws.creating) == 0 {
			return fmt.Errorf("the cluster confirmed a watch that nobody asked for")
		}
		w := ws.creating[0]
		ws.creating, ws.overdue = ws.creating[1:], 0
		if resp.Canceled {
			if ws.set[w.key] == w {
				delete(ws.set, w.key)
			}
			w.err = s.refusal(resp.CancelReason)
			close(w.ready)
			if !errors.Is(w.err, store.ErrDenied) { // such as a token that has expired: the next stream has another
				return w.err
			}
			return nil
		}
		if ws.byID == nil {
			ws.byID = map[int64]*watch{}
		}
		w.id, w.since = resp.WatchId, resp.Header.Revision
		ws.byID[w.id] = w
		close(w.ready)
		if ws.set[w.key] != w { // nothing waits for it any more
			ws.cancel(w)
		}
	case resp.Canceled:
		if _, ours := ws.byID[resp.WatchId]; ours {
			return fmt.Errorf("the cluster took a watch back: %s", resp.CancelReason)
		}
	case len(resp.Events) > 0:
		last := resp.Events[len(resp.Events)-1]
		if last.Kv == nil {
			return errMalformed
		}
		if w, ours := ws.byID[resp.WatchId]; ours {
			w.event = last
			close(w.fired)
			ws.next(w)
		}
	case resp.WatchId == clientv3.InvalidWatchID:
		for len(ws.marks) > 0 && ws.marks[0].revision <= resp.Header.Revision {
			confirmed, ws.marks = &ws.marks[0], ws.marks[1:]
		}
	}
	return nil
}
