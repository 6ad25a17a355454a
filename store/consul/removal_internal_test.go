package consul

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-leadership/leadership/store/consul/internal/agent"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

// A ballot that has gone takes along the acknowledgement with its last revision, and no later one, which is that of another
// ballot of the session.
func TestLaterAcknowledgementStays(t *testing.T) {
	for modify, deleted := range map[uint64]bool{7: true, 9: false} {
		e := engine.Entry{Election: "x", Key: "p/x/_ballots/b", Private: &standing{}}
		r := removal{Removal: engine.Removal{Entry: e, Revision: 7}, session: &session{driver: &driver{layout: layout{"p"}}, id: "s"}, tried: true}
		deletes := false
		for _, op := range r.ops(agent.Entry{Exists: true, Session: "s", Modify: modify}, false) {
			deletes = deletes || op.Verb == api.KVDelete && op.Key == "p/x"
		}
		require.Equal(t, deleted, deletes, "the acknowledgement with the index %d", modify)
	}
}

// What was offered before a ballot was declared void is not told after that: a watch reads.
func TestVoidTakesBackWhatWasOffered(t *testing.T) {
	var reads atomic.Int64
	d := driverOf(t, leastSessionTTL, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "_ballots") {
			reads.Add(1)
		}
		w.WriteHeader(http.StatusInternalServerError)
	})
	s, key := &session{driver: d, id: "id"}, "leadership/x/_ballots/id-n"
	d.watches.Offer("leadership/x/_ballots/", map[string]agent.Read{key: {Entry: agent.Entry{Exists: true, Create: 2, Modify: 2}, Index: 2}})
	require.Error(t, s.Void(t.Context(), "x", engine.Nonce{Name: "n"}))
	_, err := d.WatchEntry(t.Context(), key, func(engine.News) {})
	require.Error(t, err)
	require.EqualValues(t, 1, reads.Load())
}
