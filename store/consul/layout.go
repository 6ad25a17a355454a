package consul

import (
	"crypto/rand"
	"encoding/hex"
	"strings"

	"github.com/hashicorp/consul/api"
)

// layout says where things are:
//
//	<prefix>/<election>                             the acknowledged value, as it is, locked by the leader's session
//	<prefix>/<election>/_ballots/<session>-<nonce>  a ballot with its candidate's value, locked by its session
//	<prefix>/<election>/_void/<session>-<nonce>     says that this ballot may never be cast (again)
//	<prefix>/<election>/_seat                       locked by who leads, where there is a lock-delay
//
// All of them are locked by sessions whose keys go with them.
type layout struct{ prefix string }

func (l layout) ack(election string) string          { return l.prefix + "/" + election }
func (l layout) seat(election string) string         { return l.ack(election) + "/_seat" }
func (l layout) dir(election string) string          { return l.ack(election) + "/_ballots/" }
func (l layout) ballot(election, name string) string { return l.dir(election) + name }
func (l layout) void(election, name string) string   { return l.ack(election) + "/_void/" + name }

// uuid is the form of a session's id: the length of the parts between its hyphens.
var uuid = []int{8, 4, 4, 4, 12}

// owner returns the session that a ballot's name begins with, and false if the key is not named like a ballot.
func owner(key string) (id string, ok bool) {
	name := key[strings.LastIndexByte(key, '/')+1:]
	parts := strings.Split(name, "-")
	if len(parts) <= len(uuid) || parts[len(uuid)] == "" {
		return "", false
	}
	for i, n := range uuid {
		if len(parts[i]) != n || strings.Trim(parts[i], "0123456789abcdef") != "" {
			return "", false
		}
	}
	return strings.Join(parts[:len(uuid)], "-"), true
}

// stands reports whether a key is a ballot: it is named like one and locked by the session in its name.
func stands(key string, e entry) bool {
	id, ok := owner(key)
	return ok && e.exists && e.session == id
}

// queue returns the ballots among the keys below dir. They are not sorted.
func queue(dir string, pairs api.KVPairs) api.KVPairs {
	var list api.KVPairs
	for _, p := range pairs {
		name, below := strings.CutPrefix(p.Key, dir)
		if below && !strings.Contains(name, "/") && stands(p.Key, entryOf(p)) {
			list = append(list, p)
		}
	}
	return list
}

// entry is a key as it was seen. The zero entry is a key that does not exist.
type entry struct {
	exists         bool
	value          string
	session        string // that holds the lock; empty if none does
	create, modify uint64
}

// entryOf returns the entry of what Consul returned; it returns a key that does not exist as nil, or with no index.
func entryOf(p *api.KVPair) entry {
	if p == nil || p.CreateIndex == 0 {
		return entry{}
	}
	return entry{true, string(p.Value), p.Session, p.CreateIndex, p.ModifyIndex}
}

// newNonce returns 16 hex digits that no other ballot has.
func newNonce() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
