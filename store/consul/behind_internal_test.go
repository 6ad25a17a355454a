package consul

import (
	"testing"

	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// What is known of a ballot behind another one is dropped with either of them, and is not kept for a ballot behind one
// of its own session.
func TestBehindIsForgotten(t *testing.T) {
	const ownID, otherID = "00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b"
	l := layout{"prefix"}
	d := &driver{layout: l, present: &session{id: ownID}, behind: map[string]behind{}}
	own, other := l.ballot("x", ownID, engine.Nonce{Name: "n"}), l.ballot("x", otherID, engine.Nonce{Name: "n"})
	st := &standing{}
	d.place(own, st, []string{other})
	require.Equal(t, map[string]behind{other: {own, false}}, d.behind)
	another := l.ballot("x", otherID, engine.Nonce{Name: "m"})
	d.place(own, st, []string{another})
	require.Equal(t, map[string]behind{another: {own, false}}, d.behind)
	d.place(other, &standing{}, []string{own})
	require.Len(t, d.behind, 1)
}
