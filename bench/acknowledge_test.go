package bench

import (
	"testing"
	"time"

	"github.com/go-leadership/leadership"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// BenchmarkAcknowledge measures how soon a follower in another session knows of a leader: from the call of
// Term.Acknowledge until the follower's hook LeaderChanged, which is called once Follower.Leader returns the new one.
// The floor is the creation of an ephemeral node until another client, told by a watch, has read it.
func BenchmarkAcknowledge(b *testing.B) {
	b.Run("zookeeper", func(b *testing.B) {
		server := startZooKeeper(b)
		floor := &series{measure: newNews(b, server).measure}
		ours := &series{measure: newAnnouncement(b, server).measure}
		interleave(b, floor, ours)
		reportRatio(b, floor, ours)
	})
}

// news is the floor: two sessions and a node.
type news struct {
	wires          wires
	writer, reader *zk.Conn
	path           string
}

// read is what the reader's last request returned.
type read struct {
	at  time.Time
	err error
}

func newNews(b *testing.B, server string) *news {
	n := &news{wires: newWires(2)}
	n.writer, n.reader = connect(b, server, n.wires[0]), connect(b, server, n.wires[1])
	n.path = makeDir(b, n.writer, "/floor") + "/node"
	return n
}

func (n *news) measure(b *testing.B) time.Duration {
	_, _, created, err := n.reader.ExistsW(n.path)
	require.NoError(b, err)
	known := make(chan read, 1)
	go func() {
		<-created
		_, _, err := n.reader.Get(n.path)
		known <- read{time.Now(), err}
	}()
	n.wires.settle(b)

	start := time.Now()
	_, err = n.writer.Create(n.path, []byte("a"), zk.FlagEphemeral, world)
	require.NoError(b, err)
	r := receive(b, known, "the reader to know")

	require.NoError(b, r.err)
	require.NoError(b, n.writer.Delete(n.path, -1))
	return r.at.Sub(start)
}

// announcement is a leader and a follower, each with a session of its own.
type announcement struct {
	wires  wires
	leader *contender
	known  chan change
}

// change is what the follower learned, and when.
type change struct {
	at     time.Time
	leader leadership.Leader
}

func newAnnouncement(b *testing.B, server string) *announcement {
	b.Helper()
	const election = "acknowledge"
	a := &announcement{wires: newWires(2), known: make(chan change, 1)}
	a.leader = newContender(b, openStore(b, server, ttl, a.wires[0]), election, "a")
	follower, err := leadership.NewFollower(openStore(b, server, ttl, a.wires[1]), election, &leadership.Options{
		Hooks: &leadership.Hooks{LeaderChanged: func(_ string, leader leadership.Leader) {
			a.known <- change{time.Now(), leader}
		}},
	})
	require.NoError(b, err)
	b.Cleanup(follower.Stop)
	follower.Start()
	require.Zero(b, receive(b, a.known, "the first state").leader)
	return a
}

func (a *announcement) measure(b *testing.B) time.Duration {
	a.leader.stand(b)
	_, term := a.leader.lead(b)
	a.wires.settle(b)

	start := time.Now()
	require.NoError(b, term.Acknowledge(b.Context()))
	c := receive(b, a.known, "the follower to know")

	require.Equal(b, "a", c.leader.Value)
	require.NoError(b, term.Resign(b.Context()))
	require.Zero(b, receive(b, a.known, "the follower to know").leader)
	return c.at.Sub(start)
}
