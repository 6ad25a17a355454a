package zookeeper

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-leadership/leadership/store/engine"
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

// electionOf returns the name of the election whose node has that name. No name has "__", nor a part that begins with "_".
func electionOf(node string) string { return separators.Replace(node) }

// separators: where three "_" follow one another, the first one ends a part.
var separators = strings.NewReplacer("___", "_/", "__", "/")

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

// parse takes the name of a ballot's node apart. It returns false if the node is no ballot: no candidate waits for such a
// node.
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

// ahead reports whether a ballot is ahead of another in the queue. The counter is 32 bits wide and wraps, so only the
// distance decides: ahead is the ballot whose number is less than half the circle below the other's. A number might
// be forged, or 2^31 creations old. But of any two ballots exactly one is ahead of the other, so two candidates that see
// each other never both lead: at exactly half the circle the lower number is ahead, with one number the lower name.
func (b ballot) ahead(of ballot) bool {
	switch distance := uint32(of.number - b.number); distance {
	case 0:
		return b.name < of.name
	case 1 << 31:
		return b.number < of.number
	default:
		return distance < 1<<31
	}
}

// place returns what is ahead of a ballot in a list of an election's nodes, or engine.ErrGone if the ballot is not in the
// list.
func (l layout) place(key string, nodes []string) (engine.Place, error) {
	dir, name := path.Split(key)
	own, ok := l.parse(name)
	if !ok || !slices.Contains(nodes, name) {
		return engine.Place{}, engine.ErrGone
	}
	place, nearest := engine.Place{}, ballot{}
	for _, b := range l.ballots(nodes) {
		if !b.ahead(own) {
			continue
		}
		if place.More = place.Nearest != ""; !place.More || nearest.ahead(b) {
			place.Nearest, nearest = dir+b.name, b
		}
	}
	return place, nil
}

// queue returns the names of an election's ballots, the first in line first.
func (l layout) queue(nodes []string) (names []string) {
	list := l.ballots(nodes)
	slices.SortFunc(list, func(a, b ballot) int {
		if a.ahead(b) {
			return -1
		}
		return 1
	})
	for _, b := range list {
		names = append(names, b.name)
	}
	return names
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
