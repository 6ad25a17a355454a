package etcd

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// layout says where an election's keys are.
type layout struct{ prefix string }

// ack is the key of the acknowledged value.
func (l layout) ack(election string) string { return l.prefix + "/" + election }

// dir begins the keys of ballots. Names of elections have no part that begins with "_".
func (l layout) dir(election string) string { return l.ack(election) + "/_ballots/" }

// void is the key of the mark of a slot of the session: see Void.
func (l layout) void(lease int64, slot int) string {
	return fmt.Sprintf("%s/_void/%s-%d", l.prefix, leaseName(lease), slot)
}

// ballotName is the end of a ballot's key. The nonce tells this ballot from all others of the lease.
func ballotName(lease int64, nonce string) string { return leaseName(lease) + "-" + nonce }

// entryKey is the key by which the engine knows a ballot: the ballot's and the revision of its creation, since the
// client's concurrency.Election uses a key again.
func entryKey(key string, revision int64) string { return key + "@" + strconv.FormatInt(revision, 10) }

// entryOf is the key by which the engine knows a ballot that was read.
func entryOf(kv *mvccpb.KeyValue) string { return entryKey(string(kv.Key), kv.CreateRevision) }

// keyOf returns the ballot's key.
func keyOf(entry string) string { return entry[:strings.LastIndexByte(entry, '@')] }

// isBallot reports whether a key below dir is a ballot: the key is named after its lease, as the keys of the
// client's concurrency.Election are. Other keys there block no ballot. A list of keys without their values does not do
// for this: the cluster leaves the leases out of it.
func isBallot(dir string, kv *mvccpb.KeyValue) bool {
	lease, nonce, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), dir), "-")
	return kv.Lease != 0 && lease == leaseName(kv.Lease) && !strings.Contains(nonce, "/")
}

// isForeign reports whether a ballot is of the client's concurrency.Election, whose keys have no nonce. Such a candidate
// might change its value, and can't be asked to resign.
func isForeign(kv *mvccpb.KeyValue) bool {
	key := string(kv.Key)
	return !strings.Contains(key[strings.LastIndexByte(key, '/'):], "-")
}

// entryState returns the state of the entry with this key. kv is what is at the ballot's key, or nil.
func entryState(entry string, kv *mvccpb.KeyValue) engine.State {
	key := keyOf(entry)
	dir := key[:strings.LastIndexByte(key, '/')+1]
	if kv == nil || !isBallot(dir, kv) || entryOf(kv) != entry {
		return engine.State{}
	}
	_, nonce, _ := strings.Cut(key[len(dir):], "-")
	return engine.State{Token: uint64(kv.CreateRevision), Session: leaseName(kv.Lease), Nonce: nonce, Resign: kv.Version > 1}
}

// leaderState returns the state of an election. kv is what is at the acknowledgement's key, or nil.
func leaderState(kv *mvccpb.KeyValue) engine.State {
	if kv == nil {
		return engine.State{}
	}
	return engine.State{Leader: store.Leader{Value: string(kv.Value), Revision: uint64(kv.ModRevision)}}
}
