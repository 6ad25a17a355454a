package etcd

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// layout says where an election's keys are.
type layout struct{ prefix string }

// ack is the key of the acknowledged value.
func (l layout) ack(election string) string { return l.prefix + "/" + election }

// dir begins the keys of ballots. Names of elections have no part that begins with "_".
func (l layout) dir(election string) string { return l.ack(election) + "/_ballots/" }

// void is the key that keeps a ballot from being cast any more.
func (l layout) void(election, name string) string { return l.ack(election) + "/_void/" + name }

// ballotName is the end of a ballot's key. The nonce tells this ballot from all others of the lease. It begins with the
// store's mark, by which the store knows a ballot that it cast.
func ballotName(lease int64, mark string) string {
	return ballotOf(lease, mark) + newMark()
}

// ballotOf is how the names of a store's ballots begin.
func ballotOf(lease int64, mark string) string { return strconv.FormatInt(lease, 16) + "-" + mark }

// newMark returns four random bytes in hexadecimal.
func newMark() string {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	return hex.EncodeToString(random[:])
}

// isBallot reports whether a key below dir is a ballot: it is named after the lease it goes with, as those of the
// client's concurrency.Election are. Other keys there block no ballot. A list of keys without their values does not do
// for this: the cluster leaves the leases out of it.
func isBallot(dir string, kv *mvccpb.KeyValue) bool {
	lease, nonce, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), dir), "-")
	return kv.Lease != 0 && lease == strconv.FormatInt(kv.Lease, 16) && !strings.Contains(nonce, "/")
}

// place is a ballot in the queue.
type place struct {
	key      string
	revision int64 // of its creation
	lease    int64
}

// queue returns the ballots among the keys, which are in the order of their creation.
func queue(dir string, kvs []*mvccpb.KeyValue) []place {
	var q []place
	for _, kv := range kvs {
		if isBallot(dir, kv) {
			q = append(q, place{string(kv.Key), kv.CreateRevision, kv.Lease})
		}
	}
	return q
}

// ahead returns the ballots before revision, the nearest last, and whether the one of that revision stands.
func ahead(q []place, revision int64) ([]place, bool) {
	for i, p := range q {
		if p.revision >= revision {
			return q[:i:i], p.revision == revision
		}
	}
	return q, false
}
