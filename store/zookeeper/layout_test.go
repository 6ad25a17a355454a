package zookeeper

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path"
	"slices"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/engine"
	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name   string
		number int32
		ok     bool
	}{
		{"ballot0000000000", 0, true},
		{"ballot0000000012", 12, true},
		{"ballot_abc9_0000000012", 12, true},
		{"ballot2147483647", math.MaxInt32, true},
		{"ballot_5f30000000012", 12, true}, // of a stem that ends in a digit
		{"ballot99990000000012", 12, true},

		// After the wrap: "%010d" puts the sign within the ten characters, or before ten digits.
		{"ballot-2147483648", math.MinInt32, true},
		{"ballot_x_-999999999", -999999999, true},
		{"ballot_x_-000000001", -1, true},

		// Another client's separator and a number.
		{"ballot-0000000012", 12, true},
		{"ballot_x-0000000012", 12, true},

		{"ballot--000000001", -1, true},
		{"ballot--0000000012", 12, true},

		// No sequence of ZooKeeper's ends like this: these block no ballot.
		{"ballot000000000", 0, false},
		{"ballot-00000001", 0, false},
		{"ballot-000000000", 0, false}, // zero has no sign
		{"ballot000000000a", 0, false},
		{"ballot\uff10\uff10\uff10\uff10\uff10\uff10\uff10\uff10\uff10\uff10", 0, false},

		{"ballot", 0, false},
		{"ballot0000000012x", 0, false},
		{"ballot2147483648", 0, false},
		{"ballot_x_-2147483649", 0, false},
		{"other0000000001", 0, false},
		{"xballot0000000001", 0, false},
		{"", 0, false},
	} {
		p, ok := parse(c.name)
		require.Equal(t, c.ok, ok, c.name)
		if ok {
			require.Equal(t, ballot{c.name, c.number}, p)
		}
	}
}

// newNonce returns one as the engine makes them.
func newNonce() string { return fmt.Sprintf("%016x%08x", rand.Uint64(), rand.Uint32()) }

// The nonce is read back from the name that it makes.
func TestNonceIsReadFromTheName(t *testing.T) {
	for _, number := range []int32{0, 7, math.MaxInt32, math.MinInt32, -7} {
		nonce := newNonce()
		require.Equal(t, nonce, nonceOf("/e/"+ballotStem(nonce)+fmt.Sprintf("%010d", number)))
	}
	for _, other := range []string{"ballot0000000001", "ballot_0000000001", "leader_ack", "other_a_0000000001"} {
		require.Empty(t, nonceOf("/e/"+other), other)
	}
}

// Every number that ZooKeeper can give is read back from the name that it makes.
func TestParseReadsWhatZooKeeperWrites(t *testing.T) {
	check := func(number int32) {
		for _, stem := range []string{"ballot", ballotStem(newNonce())} {
			name := stem + fmt.Sprintf("%010d", number)
			p, ok := parse(name)
			require.True(t, ok, name)
			require.Equal(t, number, p.number, name)
		}
	}
	for _, edge := range []int32{0, math.MaxInt32, math.MinInt32, 999999999, 1000000000, -999999999, -1000000000} {
		for d := int32(-2); d <= 2; d++ {
			check(edge + d)
		}
	}
	for range 10000 {
		check(int32(rand.Uint32()))
	}
}

func TestQueueIsInOrderOfCreation(t *testing.T) {
	for _, first := range []int32{0, 999999990, math.MaxInt32 - 10, math.MinInt32, -10} {
		var created []string
		number := first
		for range 20 { // through the wrap
			created = append(created, ballotStem(newNonce())+fmt.Sprintf("%010d", number))
			number++
		}
		nodes := append([]string{"leader_ack", "ballotX", "ballot", "ballot99999999999", "other0000000001"}, created...)
		rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
		var names []string
		for _, b := range queue(nodes) {
			names = append(names, b.name)
		}
		require.Equal(t, created, names)
		requirePlaces(t, nodes, created...)
		_, err := place(ballotStem("0")+"0000000000", nodes)
		require.ErrorIs(t, err, engine.ErrGone, "a list that was taken before the ballot was cast says nothing about what is ahead")
	}
	require.Empty(t, queue(nil))
}

// requirePlaces checks the place of each ballot of a queue.
func requirePlaces(t *testing.T, nodes []string, queue ...string) {
	t.Helper()
	for i, own := range queue {
		want := engine.Place{More: i > 1}
		if i > 0 {
			want.Nearest = "/e/" + queue[i-1]
		}
		at, err := place("/e/"+own, nodes)
		require.NoError(t, err)
		require.Equal(t, want, at)
	}
}

// Two ballots with one number can only be made by hand, or by two candidates of different prefixes; all candidates
// still have to agree who is first.
func TestSameNumber(t *testing.T) {
	nodes := []string{"ballot_b_0000000001", "ballot_a_0000000001", "ballot0000000001"}
	for _, listed := range permutations(nodes) {
		requirePlaces(t, listed, "ballot0000000001", "ballot_a_0000000001", "ballot_b_0000000001")
	}
}

// Numbers that no counter gives within one queue, forged or 2^31 creations old: of any two ballots exactly one is ahead
// of the other, and a ballot's place does not depend on how the nodes were listed.
func TestNumbersHalfTheCircleAway(t *testing.T) {
	for _, numbers := range [][]int32{
		{0, 5, math.MaxInt32 - 1},
		{0, 5, math.MaxInt32},
		{0, 5, math.MinInt32},
		{0, 5, math.MinInt32 + 5},
		{0, 1 << 30, math.MinInt32, -1 << 30},
		{0, 1431655765, -1431655766},
		{math.MinInt32, math.MaxInt32, 0, -1, 1},
		{7, 7, math.MinInt32 + 7, 8},
	} {
		var nodes []string
		for i, n := range numbers {
			nodes = append(nodes, fmt.Sprintf("ballot_%d_%010d", i, n))
		}
		for _, own := range nodes {
			at, err := place("/e/"+own, nodes)
			require.NoError(t, err)
			for _, listed := range permutations(nodes) {
				again, err := place("/e/"+own, listed)
				require.NoError(t, err)
				require.Equal(t, at, again)
			}
		}
		ballots := ballots(nodes)
		for i, a := range ballots {
			require.False(t, a.ahead(a))
			for _, b := range ballots[:i] {
				require.NotEqual(t, a.ahead(b), b.ahead(a), "%s and %s", a.name, b.name)
			}
		}
	}
	requirePlaces(t, []string{"ballot_0000000000", "ballot_2147483646", "ballot_0000000005"}, "ballot_0000000000", "ballot_0000000005")
}

// permutations returns the names in every order.
func permutations(names []string) (all [][]string) {
	if len(names) == 0 {
		return [][]string{nil}
	}
	for i := range names {
		rest := slices.Delete(slices.Clone(names), i, i+1)
		for _, p := range permutations(rest) {
			all = append(all, append(p, names[i]))
		}
	}
	return all
}

// The gem orders by the digits at the end of the name, path[/\d+$/].to_i, and so do we.
func TestNameMeansTheSameToTheGem(t *testing.T) {
	name := ballotStem(newNonce()) + "0000000042"
	require.True(t, slices.Contains([]byte("_-"), name[len(name)-11]), "a digit before the number would become part of it")
	d := &driver{root: "/_zkelection"}
	require.Equal(t, "/_zkelection/database__primary", d.dir("database/primary"))
	require.Equal(t, "/_zkelection/database__primary/leader_ack", d.ackPath("database/primary"))
}

// Each name of an election is read from its node again, and no two names have one node.
func TestElectionsAreNamedAfterTheirNodes(t *testing.T) {
	list, names, nodes := []string{""}, 0, map[string]string{}
	for len(list) > 0 {
		name := list[0]
		list = list[1:]
		if len(name) < 7 {
			list = append(list, name+"a", name+"_", name+"/")
		}
		if store.CheckElection(name) != nil {
			continue
		}
		node := path.Base((&driver{}).dir(name))
		require.Equal(t, name, electionOf(node))
		require.Empty(t, nodes[node])
		nodes[node], names = name, names+1
	}
	require.Greater(t, names, 100)
	require.Equal(t, "a_/b", electionOf("a___b"))
}
