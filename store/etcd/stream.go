package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/peer"
)

// watch keeps the stream of watches: there is one while there is something to watch.
func (d *driver) watch() {
	var retries adapter.Retries
	for {
		select {
		case <-d.watches.queued:
		case <-d.life.Background.Done():
			d.watches.breakOff(store.ErrClosed)
			return
		}
		began := time.Now()
		err := d.stream()
		if time.Since(began) > time.Second {
			retries.Reset()
		}
		d.watches.breakOff(err)
		if d.life.Background.Err() == nil {
			d.config.Logger.Debug("watches were interrupted", "store", d.life.Name, "error", err)
			retries.Pause(d.life.Background)
		}
	}
}

// stream opens one stream, sends what is asked for and handles what comes, until it breaks. A permanent error
// is explained.
func (d *driver) stream() error {
	client, err := d.connected(d.life.Background)
	if err != nil {
		return err
	}
	err = d.streamOf(client)
	if explained := explain(err); store.Refused(explained) {
		return explained
	}
	return d.hint(err)
}

// errSilent says that the stream of watches has been given up.
var errSilent = errors.New("no answer on the stream of watches")

func (d *driver) streamOf(client *clientv3.Client) error {
	// A member that has no leader ends the stream, instead of keeping it open without news.
	ctx, cancel := context.WithCancelCause(clientv3.WithRequireLeader(d.life.Background))
	var receiver sync.WaitGroup
	defer receiver.Wait()
	defer cancel(nil)
	stream, err := pb.NewWatchClient(client.ActiveConnection()).Watch(ctx)
	if err != nil {
		return err
	}
	receiver.Go(func() {
		for {
			resp, err := stream.Recv()
			if err == nil {
				err = d.handle(resp)
			}
			if err != nil {
				cancel(err)
				return
			}
		}
	})
	member, _ := peer.FromContext(stream.Context())
	connection := connectionTo(member)
	interval := max(d.config.TTL/12, time.Millisecond)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	heard, owed := int64(0), 0
	for {
		for _, r := range d.watches.take() {
			_ = stream.Send(r) // the receiver learns why the stream has broken
		}
		select {
		case <-d.watches.queued:
		case <-ticker.C:
			// A member is silent if it owes an answer on the stream and nothing comes over the connection for the limit. Without
			// this only a request to the same member would find out, which might come much later (TestSilentStreamIsGivenUp).
			// Intervals count and not time: a process that was paused must not take its own silence for the member's.
			now, owes, lost := d.watches.probe(d.endpoints > 1)
			if connection != nil {
				now += connection.heard.Load()
			}
			if owed++; !owes || now != heard {
				heard, owed = now, 0
			}
			silent := owed >= int(d.limit()/interval)
			if silent && connection != nil {
				_ = connection.Close()
			}
			if silent || lost {
				return errSilent
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// probe returns how many messages have come, whether the member owes one, and whether it has left several requests for
// progress unanswered: then some watch has no news, or none has been confirmed. If the member owes nothing, and there is
// another one to go to, probe asks for a sign of life.
func (ws *watches) probe(ask bool) (messages int64, owes, lost bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	owes = ws.asked || len(ws.creating) > 0
	if !owes && ask && len(ws.byID) > 0 {
		ws.askProgress()
	}
	return ws.messages, owes, len(ws.marks) > 2
}

// handle does what a message of the cluster says. It returns an error if the stream is of no use any more,
// since a watch might have no news for ever (TestStreamIsOfNoUse).
func (d *driver) handle(resp *pb.WatchResponse) error {
	if resp.Header == nil {
		return errMalformed
	}
	ws := &d.watches
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.messages, ws.asked = ws.messages+1, false
	switch {
	case resp.Created:
		return d.created(resp)
	case resp.Canceled:
		if _, ours := ws.byID[resp.WatchId]; ours {
			return fmt.Errorf("the cluster cancelled a watch: %s", resp.CancelReason)
		}
	case len(resp.Events) > 0:
		last := resp.Events[len(resp.Events)-1]
		if last.Kv == nil {
			return errMalformed
		}
		if w, ours := ws.byID[resp.WatchId]; ours {
			d.raise(last.Kv.ModRevision) // first: no later read is older than what is told
			w.happened(last)
		}
	case resp.WatchId == clientv3.InvalidWatchID:
		for len(ws.marks) > 0 && ws.marks[0].revision <= resp.Header.Revision {
			for _, w := range ws.byID {
				if w.dated && w.revision != 0 { // it has told something
					w.tell(engine.News{AsOf: ws.marks[0].sent})
				}
			}
			ws.marks = ws.marks[1:]
		}
	}
	return nil
}

// created handles the answer to the oldest request for a watch. The caller holds the mu of watches.
func (d *driver) created(resp *pb.WatchResponse) error {
	ws := &d.watches
	if len(ws.creating) == 0 {
		return fmt.Errorf("the cluster confirmed a watch that was not asked for")
	}
	w := ws.creating[0]
	ws.creating = ws.creating[1:]
	if resp.Canceled {
		w.err = d.refusal(resp.CancelReason)
		close(w.ready)
		if !errors.Is(w.err, store.ErrDenied) { // such as a token that has expired: the next stream has another
			return w.err
		}
		if len(ws.byID) == 0 {
			ws.marks = nil // of a stream without watches the cluster tells no progress (TestRefusedWatchesAreNoSilence)
		}
		return nil
	}
	d.raise(resp.Header.Revision) // a read that is older might miss what came before the watch
	w.id = resp.WatchId
	ws.byID[w.id] = w
	close(w.ready)
	if w.stopped {
		ws.cancel(w)
	}
	return nil
}
