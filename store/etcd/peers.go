package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A candidate of the client's concurrency.Election has the key <name>/<lease>. If its name is that of an acknowledgement,
// <prefix>/<election>, it is not in this queue. It waits for all keys below its name that were created before its own, and so
// for the ballots of this queue. They do not wait for it. So the transaction that casts a ballot reads these keys, and the
// ballot is refused if there is one (TestPeersUnderTheElectionsOwnName). A program that moves from concurrency.Election
// needs this.
//
// A name that differs only by a "/" at the beginning, a twin, is easily taken for the same: the path of a URL has none.
// Candidates of a twin do not wait for this queue. While there is one, the first ballot of a session in an election is
// refused. If one comes later, both lead: nothing below the prefix keeps it back.

// twin returns the twin of a name.
func twin(name string) string {
	if rest, ok := strings.CutPrefix(name, "/"); ok {
		return rest
	}
	return "/" + name
}

// below reads the keys below a name that begin as a lease does, with a hexadecimal digit. Ballots of this queue are not among
// them. Keys of elections whose names go on there are.
func below(name string) []clientv3.Op {
	return []clientv3.Op{
		clientv3.OpGet(name+"/0", clientv3.WithRange(name+"/:")), clientv3.OpGet(name+"/a", clientv3.WithRange(name+"/g")),
	}
}

// peers returns the candidates of concurrency.Election with that name among the keys below it: a candidate's key is named
// after its own lease.
func peers(name string, lists []*pb.RangeResponse) (list []*mvccpb.KeyValue) {
	for _, found := range lists {
		for _, kv := range found.GetKvs() {
			if kv.Lease != 0 && string(kv.Key) == name+"/"+leaseName(kv.Lease) {
				list = append(list, kv)
			}
		}
	}
	return list
}

// readPeers reads the candidates of concurrency.Election with that name. A user who may not read there has no election there.
func (d *driver) readPeers(ctx context.Context, name string) ([]*mvccpb.KeyValue, error) {
	found, _, err := d.read(ctx, nil, below(name)...)
	if errors.Is(err, store.ErrDenied) {
		return nil, nil
	}
	return peers(name, found), err
}

// errBeside is why a ballot is refused.
var errBeside = errors.New("a candidate of concurrency.Election stands in a queue beside this one, and both would lead")

// alone returns an error if one of them stands beside the election with that name.
func alone(name string, list []*mvccpb.KeyValue) error {
	if len(list) == 0 {
		return nil
	}
	key := string(list[0].Key)
	err := fmt.Errorf("%w: it has the key %q; this candidate stands when that has gone", errBeside, key)
	if !strings.HasPrefix(key, name) {
		err = fmt.Errorf("%w, but later ones would not wait for candidates below %q: begin the prefix with a slash as that key does, or without", err, name)
	}
	return err
}

// twinless returns an error if one stands under the twin of an election's name. It asks once for each name.
func (s *session) twinless(ctx context.Context, name string) error {
	s.mu.Lock()
	single := s.single[name]
	s.mu.Unlock()
	if single {
		return nil
	}
	list, err := s.driver.readPeers(ctx, twin(name))
	if err == nil {
		err = alone(name, list)
	}
	if err != nil {
		return adapter.NotCast(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.single) >= mostSingle {
		clear(s.single)
	}
	s.single[name] = true
	return nil
}

// mostSingle bounds the memory of a session.
const mostSingle = 1 << 15
