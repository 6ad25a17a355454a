package zookeeper_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-leadership/leadership"
	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// oddBytes is a value that shows whether the store adds, encodes or cuts anything.
const oddBytes = "db2:4567\x00\xff é\n"

// A ballot of the gem is listed as such, and a request to resign is refused: its owner would never read it.
func TestCandidatesOfTheGemAreForeign(t *testing.T) {
	t.Parallel()
	election := newElection()
	st := open(t, zookeeper.Config{})
	g := newGemCandidate(t, election, "gem")
	receive(t, g.won, "the gem's win")
	b := cast(t, st, election, "ours")
	list, err := st.Ballots(soon(t), election)
	require.NoError(t, err)
	token := list[0].Token
	require.ErrorIs(t, st.RequestResignation(soon(t), election, token), errors.ErrUnsupported)
	require.NoError(t, st.RequestResignation(soon(t), election, b.Token()))
	list, err = st.Ballots(soon(t), election)
	require.NoError(t, err)
	require.Equal(t, []store.Standing{
		{Value: "gem", Token: token, Foreign: true}, {Value: "ours", Token: b.Token(), Asked: true},
	}, list)
}

// Candidates of the gem and of the store stand in line, and each leads in turn.
func TestGemCandidatesStandInTheSameElection(t *testing.T) {
	t.Parallel()
	election := newElection() + "/with parts"
	follower := newFollower(t, open(t, zookeeper.Config{}), election)
	require.Zero(t, receive(t, follower, "the first state"))

	type peer struct {
		value string
		won   func() // waits until it leads and has acknowledged
		waits func() // waits until it follows the one before, and checks that it does not lead
		leave func()
	}
	var peers []peer
	for i, kind := range []string{"gem", "ours", "gem", "ours", "ours", "gem", "gem", "ours"} {
		value := string(rune('a'+i)) + oddBytes
		if kind == "gem" {
			g := newGemCandidate(t, election, value)
			following := sync.OnceFunc(func() { receive(t, g.follows, "the gem's watch") })
			peers = append(peers, peer{
				value: value,
				won:   func() { receive(t, g.won, "the gem's win") },
				waits: func() {
					following()
					select {
					case <-g.won:
						require.FailNow(t, "the gem's candidate leads out of turn")
					default:
					}
				},
				leave: g.close,
			})
			continue
		}
		c := contend(t, open(t, zookeeper.Config{}), election, value)
		st := open(t, zookeeper.Config{})
		eventually(t, func() bool { return slices.Contains(values(t, st, election), value) }, "the ballot")
		peers = append(peers, peer{
			value: value,
			won:   func() { receive(t, c.Terms, "our win") },
			waits: func() { require.False(t, c.IsLeader()) },
			leave: c.End,
		})
	}
	for i, p := range peers {
		p.won()
		for _, later := range peers[i+1:] {
			later.waits()
		}
		leader := receive(t, follower, "a new leader")
		if leader == (leadership.Leader{}) { // whether the end of the one before is seen depends on timing
			leader = receive(t, follower, "a new leader, after the old one's end")
		}
		require.Equal(t, p.value, leader.Value)
		p.leave()
	}
	require.Zero(t, receive(t, follower, "the end"))
}

// gemCandidate does what ZK::Election::Candidate of the Ruby zk gem does, method by method, so that the tests show that
// candidates in both languages elect one leader. The comments have the gem's names.
type gemCandidate struct {
	t    *testing.T
	conn *zk.Conn
	dir  string
	data string

	ballot string
	// follows receives at each watch that is set on the ballot ahead. The gem sets it only when the leader has
	// acknowledged. If its leader goes before that, the candidate waits for the acknowledgement of the next.
	follows chan struct{}
	won     chan struct{} // closed by handle_winning_election, once it has acknowledged
	ended   chan struct{}
	end     context.CancelFunc
	ctx     context.Context
}

// newGemCandidate casts a ballot with vote!, in a session of its own. The ballot stands when newGemCandidate returns.
func newGemCandidate(t *testing.T, election, data string) *gemCandidate {
	t.Helper()
	g := &gemCandidate{
		t: t, conn: connectRaw(t, long, sharedServer(t).Addrs()...), dir: dir(election), data: data,
		follows: make(chan struct{}, 100), won: make(chan struct{}), ended: make(chan struct{}),
	}
	g.ctx, g.end = context.WithCancel(context.Background())
	makePath(t, g.conn, g.dir)                                                                     // create_root_path!
	ballot, err := g.conn.Create(g.dir+"/ballot", []byte(data), zk.FlagEphemeralSequential, world) // cast_ballot!
	require.NoError(t, err)
	g.ballot = strings.TrimPrefix(ballot, g.dir+"/")
	go func() {
		defer close(g.ended)
		g.checkElectionResults()
	}()
	t.Cleanup(g.close)
	return g
}

// close closes the client: that is how a candidate of the gem gives up.
func (g *gemCandidate) close() {
	g.end()
	g.conn.Close()
	<-g.ended
}

// digit is the gem's path[/\d+$/].to_i.
func digit(path string) int {
	n, _ := strconv.Atoi(regexp.MustCompile(`\d+$`).FindString(path))
	return n
}

// checkElectionResults is check_election_results!, handle_winning_election and handle_losing_election.
func (g *gemCandidate) checkElectionResults() {
	for g.ctx.Err() == nil {
		ballots, _, err := g.conn.Children(g.dir)
		if g.failed(err) {
			return
		}
		ballots = slices.DeleteFunc(ballots, func(name string) bool { return !strings.HasPrefix(name, "ballot") })
		slices.SortFunc(ballots, func(a, b string) int { return digit(a) - digit(b) })
		i := slices.Index(ballots, g.ballot)
		if i < 0 {
			return
		}
		if i == 0 {
			_, err := g.conn.Create(g.dir+"/leader_ack", []byte(g.data), zk.FlagEphemeral, world) // acknowledge_win!
			if !errors.Is(err, zk.ErrNodeExists) && g.failed(err) {
				return
			}
			close(g.won)
			return
		}
		// on_leader_ack, then the watch on the next ballot.
		if !g.awaitNode(g.dir+"/leader_ack", true) || !g.awaitNode(g.dir+"/"+ballots[i-1], false) {
			return
		}
	}
}

// awaitNode waits until the node exists, or does not.
func (g *gemCandidate) awaitNode(path string, exists bool) bool {
	for {
		there, _, changed, err := g.conn.ExistsW(path)
		if g.failed(err) {
			return false
		}
		if there == exists {
			return true
		}
		if !exists {
			g.follows <- struct{}{}
		}
		select {
		case <-changed:
		case <-g.ctx.Done():
			return false
		}
	}
}

func (g *gemCandidate) failed(err error) bool {
	if err != nil && g.ctx.Err() == nil {
		g.t.Errorf("the gem's candidate %q: %v", g.data, err)
	}
	return err != nil
}
