package zookeeper

import "encoding/binary"

// ask is a request that sets watches.
type ask struct {
	op   uint32
	keys []watchKey
}

// The requests that set watches, and the error of one that says that there is no such node.
const (
	opExists     = 3
	opGetData    = 4
	opSetWatches = 101
	codeNoNode   = -101
)

// asksOf returns which watches a request sets; none if it sets none.
func asksOf(p []byte) ask {
	if len(p) < requestBody {
		return ask{}
	}
	a, rest := ask{op: binary.BigEndian.Uint32(p[requestOpcode:])}, fields(p[requestBody:])
	switch a.op {
	case opExists, opGetData:
		path := rest.next(rest.number())
		if watch := rest.next(1); len(watch) == 1 && watch[0] != 0 {
			a.keys = []watchKey{{string(path), a.op == opExists}}
		}
	case opSetWatches:
		rest.next(setWatchesLists - requestBody)
		for _, absent := range []bool{false, true} {
			for n := rest.number(); n > 0 && len(rest) > 0; n-- {
				a.keys = append(a.keys, watchKey{string(rest.next(rest.number())), absent})
			}
		}
	}
	return a
}

// set reports whether the server has set the watches, by the error in its answer. That of a node which does not exist
// is set by the answer that says so.
func (a ask) set(code int32) bool {
	return len(a.keys) > 0 && (code == 0 || a.op == opExists && code == codeNoNode)
}

// fields are those of a request which are still to be read. Behind the end, all are empty.
type fields []byte

func (f *fields) next(n int) []byte {
	n = max(0, min(n, len(*f)))
	p := (*f)[:n]
	*f = (*f)[n:]
	return p
}

func (f *fields) number() int {
	p := f.next(4)
	if len(p) < 4 {
		return 0
	}
	return int(int32(binary.BigEndian.Uint32(p)))
}
