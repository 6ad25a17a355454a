package httpstore

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership/examples/httpstore/server"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

// Two polls are under way, sent when there was no leader. One tells of a leader. The other was sent after that leader
// had gone, and says that nothing has changed: which is not said of the leader that was told.
func TestNothingHasChangedSinceAnotherVersion(t *testing.T) {
	var told []engine.News
	w := &watch{version: server.Unknown, tell: func(n engine.News) { told = append(told, n) }}
	began := time.Now()
	w.take(server.Answer{Index: 1, States: map[int]server.Answer{0: {}}}, 0, server.Unknown, began)
	leader := server.Answer{Version: 2, Value: []byte("a")}
	w.take(server.Answer{Index: 2, States: map[int]server.Answer{0: leader}}, 0, 0, began.Add(time.Second))
	require.Len(t, told, 2)
	require.Equal(t, "a", told[1].State.Leader.Value)
	w.take(server.Answer{Index: 3}, 0, 0, began.Add(2*time.Second))
	require.Len(t, told, 2, "the leader is right as of a time after its end")
	w.take(server.Answer{Index: 3}, 0, 2, began.Add(3*time.Second))
	require.Equal(t, engine.News{AsOf: began.Add(3 * time.Second)}, told[2])
}
