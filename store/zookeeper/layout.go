package zookeeper

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// layout is where an election's nodes are: by default as the Ruby zk gem's ZK::Election has them,
//
//	/_zkelection/<election>/ballot_<nonce>_0000000012    ephemeral, sequential, with the candidate's value
//	/_zkelection/<election>/leader_ack                   ephemeral, with the acknowledged value
//
// with "/" in an election's name written "__". Anything that begins with the ballot prefix and ends in a sequence number
// as ZooKeeper writes it is a ballot, whoever made it; the number is its place in the queue.
type layout struct {
	root   string // chroot and root
	prefix string // of ballots
	ack    string // name of the acknowledgement
}

func (l layout) dir(election string) string {
	return l.root + "/" + strings.ReplaceAll(election, "/", "__")
}

func (l layout) ackPath(election string) string { return l.dir(election) + "/" + l.ack }

// ballotStem returns what a ballot is created with; ZooKeeper appends the number. The nonce finds the ballot again
// when the reply to its creation was lost. The last separator is not "-", which would look like the number's sign.
func (l layout) ballotStem(nonce string) string { return l.prefix + "_" + nonce + "_" }

func newNonce() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// place is where a ballot stands in the queue.
type place struct {
	name   string
	number int32
}

// sequence is what ZooKeeper appends to a name, "%010d" of 32 bits: ten digits or, after the counter has wrapped, a sign
// within the ten characters or before ten digits.
var sequence = regexp.MustCompile(`(-?[0-9]{10}|-[0-9]{9})$`)

// parse returns the place of a ballot's node, and false where the node is not a ballot: then no candidate waits for it.
func (l layout) parse(name string) (place, bool) {
	rest, ok := strings.CutPrefix(name, l.prefix)
	if !ok {
		return place{}, false
	}
	text := sequence.FindString(rest)
	if strings.HasPrefix(text, "-0") && len(text) == 11 {
		text = text[1:] // "-0000000012" is a separator and a number
	}
	number, err := strconv.ParseInt(text, 10, 32)
	if err != nil || number == 0 && text[0] == '-' {
		return place{}, false
	}
	return place{name, int32(number)}, true
}

// before compares places in the order of creation. The counter is 32 bits wide and wraps, so that what counts is the
// distance.
func before(a, b place) int {
	if a.number == b.number {
		return cmp.Compare(a.name, b.name)
	}
	if a.number-b.number < 0 {
		return -1
	}
	return 1
}

// queue returns the ballots among an election's nodes, first in line first.
func (l layout) queue(nodes []string) []place {
	var list []place
	for _, node := range nodes {
		if p, ok := l.parse(node); ok {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, before)
	return list
}

// ahead returns the ballots ahead of own, the nearest last, and whether own is among the nodes.
func (l layout) ahead(nodes []string, own string) ([]place, bool) {
	list := l.queue(nodes)
	i := slices.IndexFunc(list, func(p place) bool { return p.name == own })
	if i < 0 {
		return nil, false
	}
	return list[:i], true
}

// find returns the ballot that was created with the nonce.
func (l layout) find(nodes []string, nonce string) (string, bool) {
	stem := l.ballotStem(nonce)
	i := slices.IndexFunc(nodes, func(n string) bool { return strings.HasPrefix(n, stem) })
	if i < 0 {
		return "", false
	}
	return nodes[i], true
}
