package bench

import "fmt"

// tally is a number of requests by kind.
type tally map[string]int

// Kinds of requests. A read that sets a watch is of a kind of its own.
const (
	kindPing        = "ping"
	kindSync        = "sync"
	kindGet         = "getData"
	kindExists      = "exists"
	kindGetChildren = "getChildren"
	andWatch        = " and watch"
	kindGetAndWatch = kindGet + andWatch
)

// kindOf tells the kind of a request: its number, an operation, and what belongs to that. The request of a read is
// a path, and whether to set a watch.
func kindOf(frame []byte) string {
	switch operation := bigEndian(frame[4:]); operation {
	case 1:
		return "create"
	case 2:
		return "delete"
	case 3:
		return readKind(kindExists, frame)
	case 4:
		return readKind(kindGet, frame)
	case 5:
		return "setData"
	case 9:
		return kindSync
	case 11:
		return kindPing
	case 12:
		return readKind(kindGetChildren, frame)
	case 14:
		return "multi"
	default:
		return fmt.Sprintf("operation %d", operation)
	}
}

func readKind(kind string, frame []byte) string {
	if frame[len(frame)-1] != 0 {
		return kind + andWatch
	}
	return kind
}

// all is the number of all requests.
func (t tally) all() int {
	n := 0
	for _, count := range t {
		n += count
	}
	return n
}

// keepsSession are the kinds that a session costs whether or not there are elections: pings, and the Syncs that renew
// it.
func keepsSession(kind string) bool { return kind == kindPing || kind == kindSync }

// sent is the number of requests but those that keep the session.
func (t tally) sent() int { return t.all() - t[kindPing] - t[kindSync] }

// looks is the number of reads that set no watch. With these a store looks now and then, at each renewal, whether a
// watch has been lost.
func (t tally) looks() int { return t[kindGet] + t[kindExists] }
