package zookeeper

import (
	"cmp"
	"path"
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
// with "/" in an election's name written "__". Anything that begins with the ballot prefix and ends in a sequence
// number as ZooKeeper writes it is a ballot of any client; the number is its position in the queue.
type layout struct {
	root   string // chroot and root
	prefix string // of ballots
	ack    string // name of the acknowledgement
}

func (l layout) dir(election string) string {
	return l.root + "/" + strings.ReplaceAll(election, "/", "__")
}

func (l layout) ackPath(election string) string { return l.dir(election) + "/" + l.ack }

// ballotStem returns the path with which a ballot is created; ZooKeeper appends the number. The nonce finds the ballot
// again when the reply to its creation was lost. The last separator is not "-", which would look like the number's
// sign.
func (l layout) ballotStem(nonce string) string { return l.prefix + "_" + nonce + "_" }

// nonce returns the nonce in a ballot's path, or an empty string if the path has another form.
func (l layout) nonce(p string) string {
	rest, ok := strings.CutPrefix(path.Base(p), l.prefix+"_")
	nonce, _, found := strings.Cut(rest, "_")
	if !ok || !found {
		return ""
	}
	return nonce
}

// ballot is the name of a ballot's node, and its position in the queue.
type ballot struct {
	name   string
	number int32
}

// sequence is what ZooKeeper appends to a name, "%010d" of 32 bits: ten digits or, after the counter has wrapped, a
// sign within the ten characters or before ten digits.
var sequence = regexp.MustCompile(`(-?[0-9]{10}|-[0-9]{9})$`)

// parse takes the name of a ballot's node apart, and returns false if the node is not a ballot: then no candidate waits for it.
func (l layout) parse(name string) (ballot, bool) {
	rest, ok := strings.CutPrefix(name, l.prefix)
	if !ok {
		return ballot{}, false
	}
	text := sequence.FindString(rest)
	if strings.HasPrefix(text, "-0") && len(text) == 11 {
		text = text[1:] // "-0000000012" is a separator and a number
	}
	number, err := strconv.ParseInt(text, 10, 32)
	if err != nil || number == 0 && text[0] == '-' {
		return ballot{}, false
	}
	return ballot{name, int32(number)}, true
}

// ahead returns the ballots ahead of own, the nearest last, and whether own is among the nodes. The counter is 32 bits wide
// and wraps, so only distances tell the order: ahead are those whose number is less than half the circle below own's,
// whatever else is listed. A number might be forged, or 2^31 creations old. But of any two ballots exactly one is ahead of
// the other, so two candidates that see each other never both lead: at exactly half the circle the lower number is ahead,
// with one number the lower name.
func (l layout) ahead(nodes []string, own string) ([]ballot, bool) {
	o, ok := l.parse(own)
	if !ok || !slices.Contains(nodes, own) {
		return nil, false
	}
	distance := func(b ballot) uint32 { return uint32(o.number - b.number) }
	list := slices.DeleteFunc(l.ballots(nodes), func(b ballot) bool {
		switch d := distance(b); d {
		case 0:
			return b.name >= own
		case 1 << 31:
			return b.number > o.number
		default:
			return d > 1<<31
		}
	})
	slices.SortFunc(list, func(a, b ballot) int {
		return cmp.Or(cmp.Compare(distance(b), distance(a)), cmp.Compare(a.name, b.name))
	})
	return list, true
}

// ballots returns the ballots among an election's nodes.
func (l layout) ballots(nodes []string) []ballot {
	var list []ballot
	for _, node := range nodes {
		if p, ok := l.parse(node); ok {
			list = append(list, p)
		}
	}
	return list
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
