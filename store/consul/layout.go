package consul

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/go-leadership/leadership/store/consul/internal/agent"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/hashicorp/consul/api"
)

// layout says where things are:
//
//	<prefix>/<election>                             the acknowledged value, as it is, locked by the leader's session
//	<prefix>/<election>/_ballots/<session>-<nonce>  a ballot with its candidate's value, locked by its session
//	<prefix>/<election>/_values/<session>-<nonce>   the value, if it is long: casting reads all ballots of an election
//	<prefix>/_void/<session>-<slot>                 changed when a ballot cast in that slot is declared void
//
// All of them are locked by sessions whose keys go with them.
type layout struct{ prefix string }

func (l layout) ack(election string) string { return l.prefix + "/" + election }
func (l layout) dir(election string) string { return l.ack(election) + "/_ballots/" }
func (l layout) void(session string, n int) string {
	return fmt.Sprintf("%s/_void/%s-%d", l.prefix, session, n)
}
func (l layout) value(election, name string) string { return l.ack(election) + "/_values/" + name }

func (l layout) ballot(election, session string, n engine.Nonce) string {
	return l.dir(election) + session + "-" + n.Name
}

// nameOf returns what comes behind the last slash of a key: the session of a ballot, and its nonce.
func nameOf(key string) string { return key[strings.LastIndexByte(key, '/')+1:] }

// owner returns the session and the nonce in a ballot's key. They are empty if the key is not named like a ballot: a session's
// id is a UUID of 36 characters.
func owner(key string) (session, nonce string) {
	const id = 36
	name := nameOf(key)
	if len(name) <= id+1 || name[id] != '-' {
		return "", ""
	}
	return name[:id], name[id+1:]
}

// longValue is the length in bytes above which a value has a key of its own. Values may have 128 KiB, and each cast reads the
// ballots of the election: so candidates with long values cost the others nothing (bench: TestBytesPerChange).
const longValue = 256

// The flags of a ballot.
const (
	isLong   = 1 << iota // its value has a key of its own
	isCalled             // an operator has asked its owner to resign
	isFirst              // it was acknowledged
)

// ackMark is in the flags of every acknowledgement, above the token of its ballot, which is an index of Consul's log and so
// below 1<<48. It tells these flags from those of other programs.
const ackMark = 0x1ead << 48

// ackFlags returns the flags of the acknowledgement of the ballot with a token.
func ackFlags(token uint64) uint64 { return ackMark | token }

// isEarlierAck reports whether the flags are those of an acknowledgement of a ballot with a lower token.
func isEarlierAck(flags, token uint64) bool { return flags > ackMark && flags < ackFlags(token) }

// stands reports whether a key is a ballot: it is named like one and locked by the session in its name.
func stands(key string, e agent.Entry) bool {
	id, _ := owner(key)
	return id != "" && e.Session == id
}

// queue returns the ballots among the keys below dir, the first in line first.
func queue(dir string, pairs api.KVPairs) api.KVPairs {
	var list api.KVPairs
	for _, p := range pairs {
		name, below := strings.CutPrefix(p.Key, dir)
		if below && !strings.Contains(name, "/") && stands(p.Key, agent.EntryOf(p)) {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(p, q *api.KVPair) int { return cmp.Compare(p.CreateIndex, q.CreateIndex) })
	return list
}

// newName returns 16 hex digits that nothing else has.
func newName() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
