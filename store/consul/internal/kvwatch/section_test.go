package kvwatch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each key is in one section, there are not too many of them, and keys that begin alike for long are divided, too.
func TestDivide(t *testing.T) {
	numbered := func(format string, n int) (keys []string) {
		for i := range n {
			election := fmt.Sprintf("p/"+format, i)
			keys = append(keys, election, election+"/_ballots/1", election+"/_ballots/2")
		}
		return keys
	}
	for name, c := range map[string]struct {
		keys    []string
		largest int // the size of a section
	}{
		"few":            {numbered("%d", 20), 60},
		"numbers":        {numbered("shards/%d", 300), 33},
		"more numbers":   {numbered("%d", 1000), 333},
		"with zeroes":    {numbered("job-%03d", 300), 30},
		"hexadecimal":    {numbered("%x-name", 4096), 819},
		"not plain":      {numbered("ä %d", 100), 300},
		"some not plain": {append(numbered("a %d", 50), numbered("b%02d", 100)...), 150},
		"alike":          {slices.Repeat([]string{"p/a"}, 100), 100},
		"one election":   {append(slices.Repeat([]string{"p/a/_ballots/1"}, 100), "p/a"), 100},
	} {
		t.Run(name, func(t *testing.T) {
			p := &plan{sections: map[string]*query{}}
			for _, prefix := range divide("p/", slices.Clone(c.keys)) {
				p.sections[prefix] = &query{prefix: prefix}
			}
			require.LessOrEqual(t, len(p.sections), mostSections)
			sizes := map[string]int{}
			for _, key := range c.keys {
				q := p.find(key)
				require.NotNil(t, q, key)
				require.True(t, strings.HasPrefix(key, q.prefix))
				sizes[q.prefix]++
			}
			largest := 0
			for _, n := range sizes {
				largest = max(largest, n)
			}
			require.Equal(t, c.largest, largest, "%v", sizes)
		})
	}
}

// The sections stay while their keys come and go. They are divided anew for a key that is in none, and if there are far more
// or fewer keys. Queries of sections that stay go on, and the others end.
func TestPlanIsUpdated(t *testing.T) {
	list := func(keys ...string) (list []*watch) {
		for _, key := range keys {
			for range fewKeys {
				list = append(list, &watch{key: key})
			}
		}
		return list
	}
	p := &plan{}
	require.True(t, p.update("p/", list("p/aa", "p/ba")))
	ended := map[string]bool{}
	for prefix := range p.sections {
		p.sections[prefix] = &query{prefix: prefix, cancel: func() { ended[prefix] = true }}
	}
	require.Len(t, p.sections, 2)
	kept := p.sections["p/a"]
	require.False(t, p.update("p/", list("p/aa", "p/bb")))
	require.False(t, p.update("p/", list("p/aa", "p/bb")[1:]))
	require.True(t, p.update("p/", list("p/aa", "p/c")))
	require.Same(t, kept, p.sections["p/a"])
	require.Equal(t, map[string]bool{"p/b": true}, ended)
	require.True(t, p.update("p/", list("p/aa", "p/ab", "p/ac", "p/ad", "p/c")), "far more")
	require.True(t, p.update("p/", list("p/aa", "p/c")), "far fewer")
}
