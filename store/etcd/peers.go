package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
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
func below(name string) (gets []clientv3.Op) {
	for _, digits := range []string{"0:", "ag"} {
		gets = append(gets, clientv3.OpGet(name+"/"+digits[:1], clientv3.WithRange(name+"/"+digits[1:]), clientv3.WithKeysOnly()))
	}
	return gets
}

// leaseEnd is how the key of a candidate of concurrency.Election ends.
var leaseEnd = regexp.MustCompile(`^[1-9a-f][0-9a-f]{0,15}$`)

// peers returns the candidates of concurrency.Election with that name. lists are what was found below it. A key that is
// named as a lease might also be the acknowledgement of an election: a candidate's key is named after its own lease.
func (d *driver) peers(ctx context.Context, name string, lists []*pb.RangeResponse) (list []*mvccpb.KeyValue, err error) {
	var gets []clientv3.Op
	for _, found := range lists {
		for _, kv := range found.GetKvs() {
			if end, ok := strings.CutPrefix(string(kv.Key), name+"/"); ok && leaseEnd.MatchString(end) {
				gets = append(gets, clientv3.OpGet(string(kv.Key)))
			}
		}
	}
	for some := range slices.Chunk(gets, 100) {
		found, _, err := d.read(ctx, nil, some...)
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			if kv := first(r); kv != nil && kv.Lease != 0 && string(kv.Key) == name+"/"+leaseName(kv.Lease) {
				list = append(list, kv)
			}
		}
	}
	return list, nil
}

// readPeers reads the candidates of concurrency.Election with that name.
func (d *driver) readPeers(ctx context.Context, name string) ([]*mvccpb.KeyValue, error) {
	found, _, err := d.read(ctx, nil, below(name)...)
	if err != nil {
		return nil, err
	}
	return d.peers(ctx, name, found)
}

// readTwins is readPeers of the name's twin. A user who may not read there has no election there.
func (d *driver) readTwins(ctx context.Context, name string) ([]*mvccpb.KeyValue, error) {
	list, err := d.readPeers(ctx, twin(name))
	if errors.Is(err, store.ErrDenied) {
		return nil, nil
	}
	return list, err
}

// readBeside reads all of them, the first in line first.
func (d *driver) readBeside(ctx context.Context, name string) ([]*mvccpb.KeyValue, error) {
	own, err := d.readPeers(ctx, name)
	if err != nil {
		return nil, err
	}
	others, err := d.readTwins(ctx, name)
	return inOrder(append(own, others...)), err
}

// inOrder sorts ballots by their creation.
func inOrder(list []*mvccpb.KeyValue) []*mvccpb.KeyValue {
	slices.SortFunc(list, func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.CreateRevision, b.CreateRevision) })
	return list
}

// errBeside is why a ballot is refused.
var errBeside = errors.New("a candidate of concurrency.Election stands in a queue beside this one, and both would lead")

// alone returns an error if one of them stands. lists are what was found below the name.
func (d *driver) alone(ctx context.Context, name string, lists []*pb.RangeResponse) error {
	list, err := d.peers(ctx, name, lists)
	if err == nil && len(list) > 0 {
		err = fmt.Errorf("%w: it has the key %q; this candidate stands when that has gone", errBeside, list[0].Key)
	}
	return err
}

// twinless returns an error if one stands under the twin of an election's name. It asks once for each election.
func (s *session) twinless(ctx context.Context, election string) error {
	s.mu.Lock()
	single := s.single[election]
	s.mu.Unlock()
	if single {
		return nil
	}
	name := s.driver.layout.ack(election)
	list, err := s.driver.readTwins(ctx, name)
	switch {
	case err != nil:
		return adapter.NotCast(err)
	case len(list) > 0:
		return fmt.Errorf("%w: it has the key %q, and would not wait for candidates below %q: let the prefix of the store begin as that key does, with or without a slash",
			errBeside, list[0].Key, name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.single == nil || len(s.single) >= mostSingle {
		s.single = map[string]bool{}
	}
	s.single[election] = true
	return nil
}

// mostSingle bounds the memory of a session.
const mostSingle = 1 << 15
