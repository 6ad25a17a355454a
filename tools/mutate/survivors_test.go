package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestSurvivorsAreMutants: each name in the table of survivors is that of a mutant, since a line that no longer exists explains
// nothing. If it fails after a change to the source, drop the entry, or give it the name that the tool lists for the line now.
func TestSurvivorsAreMutants(t *testing.T) {
	const table = "tools/mutate/survivors.txt"
	t.Chdir("../..")
	explained, err := readExplained(table)
	if err != nil || len(explained) == 0 {
		t.Fatal(explained, err)
	}
	listed := map[string][]mutant{} // by file
	for _, name := range slices.Sorted(maps.Keys(explained)) {
		path, _, _ := strings.Cut(name, " ")
		if _, ok := listed[path]; !ok {
			if listed[path], err = mutantsOf(path); err != nil {
				listed[path] = nil // the file is gone
			}
		}
		if !slices.ContainsFunc(listed[path], func(m mutant) bool { return m.name == name }) {
			t.Errorf("%s: no mutant is named %q", table, name)
		}
	}
}
