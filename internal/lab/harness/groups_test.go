package harness

import (
	"slices"
	"testing"

	"github.com/go-leadership/leadership/conformance"
	"github.com/stretchr/testify/require"
)

// The lists name cases of the suite, and those of clusters check each promise but the ones that are counted.
func TestLists(t *testing.T) {
	named(t, counting...)
	named(t, ofSessions...)
	var promises []string
	for _, c := range named(t, onClusters...) {
		promises = append(promises, c.Promises...)
	}
	require.Subset(t, promises, []string{"G1", "G2", "G3", "G4", "G5"})
	for _, name := range counting {
		require.NotContains(t, onClusters, name)
	}
}

// Each case is in one group, and those that count are alone.
func TestGroups(t *testing.T) {
	var grouped, all []string
	for _, g := range groups(4) {
		require.LessOrEqual(t, len(g), 4)
		for _, c := range g {
			grouped = append(grouped, c.Name)
			require.False(t, len(g) > 1 && slices.Contains(counting, c.Name), c.Name)
		}
	}
	for _, c := range conformance.Cases() {
		if c.Name != outage {
			all = append(all, c.Name)
		}
	}
	require.ElementsMatch(t, all, grouped)
}
