package zookeeper

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-leadership/leadership/store/engine"
)

// The nodes of an election are those of the Ruby zk gem's ZK::Election, so that candidates of both stand in one queue:
//
//	/_zkelection/<election>/ballot_<nonce>_0000000012    ephemeral, sequential, with the candidate's value
//	/_zkelection/<election>/leader_ack                   ephemeral, with the acknowledged value
//
// A "/" in an election's name is written "__". Any name that begins with "ballot" and ends in a sequence number as
// ZooKeeper writes it is that of a ballot, of any client. The number is the ballot's position in the queue.
const ballotPrefix, ackName = "ballot", "leader_ack"

// dir returns the path of an election's nodes.
func (d *driver) dir(election string) string {
	return d.root + "/" + strings.ReplaceAll(election, "/", "__")
}

func (d *driver) ackPath(election string) string { return d.dir(election) + "/" + ackName }

// electionOf returns the name of the election whose node has that name. No name has "__", nor a part that begins with "_".
func electionOf(node string) string { return separators.Replace(node) }

// separators: where three "_" follow one another, the first one ends a part.
var separators = strings.NewReplacer("___", "_/", "__", "/")

// ballotStem returns the name with which a ballot is created; ZooKeeper appends the number. The nonce finds the ballot
// again when the reply to its creation was lost. The last separator is not "-", which would look like the number's
// sign.
func ballotStem(nonce string) string { return ballotPrefix + "_" + nonce + "_" }

// nonceOf returns the nonce in a ballot's path, or an empty string if the path has another form.
func nonceOf(p string) string {
	if found := stem.FindStringSubmatch(path.Base(p)); found != nil {
		return found[1]
	}
	return ""
}

var stem = regexp.MustCompile("^" + ballotStem("([^_]*)"))

// ballot is the name of a ballot's node, and its position in the queue.
type ballot struct {
	name   string
	number int32
}

// sequence is what ZooKeeper appends to a name, "%010d" of 32 bits: ten digits or, after the counter has wrapped, a
// sign within the ten characters or before ten digits. "-0000000012" is a separator and a number.
var sequence = regexp.MustCompile(`(-[1-9][0-9]{9}|-[0-9]{9}|[0-9]{10})$`)

// parse takes the name of a ballot's node apart. It returns false if the node is no ballot: no candidate waits for such a
// node.
func parse(name string) (ballot, bool) {
	rest, ok := strings.CutPrefix(name, ballotPrefix)
	text := sequence.FindString(rest)
	number, err := strconv.ParseInt(text, 10, 32)
	return ballot{name, int32(number)}, ok && err == nil && text != "-000000000"
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
func place(key string, nodes []string) (engine.Place, error) {
	dir, name := path.Split(key)
	own, ok := parse(name)
	if !ok || !slices.Contains(nodes, name) {
		return engine.Place{}, engine.ErrGone
	}
	place, nearest := engine.Place{}, ballot{}
	for _, b := range ballots(nodes) {
		if !b.ahead(own) {
			continue
		}
		if place.More = place.Nearest != ""; !place.More || nearest.ahead(b) {
			place.Nearest, nearest = dir+b.name, b
		}
	}
	return place, nil
}

// queue returns the ballots among an election's nodes, the first in line first.
func queue(nodes []string) []ballot {
	list := ballots(nodes)
	slices.SortFunc(list, func(a, b ballot) int {
		if a.ahead(b) {
			return -1
		}
		return 1
	})
	return list
}

// ballots returns the ballots among an election's nodes.
func ballots(nodes []string) (list []ballot) {
	for _, node := range nodes {
		if b, ok := parse(node); ok {
			list = append(list, b)
		}
	}
	return list
}
