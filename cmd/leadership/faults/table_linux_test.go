package faults

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// table collects the results of the trials.
type table struct {
	mu      sync.Mutex
	results []result // guarded by mu
}

type result struct {
	cell  cell
	shown outcome
	why   string // the cell is not shown; or empty
}

func (t *table) add(c cell, o outcome, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.results = append(t.results, result{c, o, why})
}

// String returns tables in Markdown for each service: for how long the old command ran beside the rival's, and from
// the fault to the rival's start. The names of the cells that are not shown follow.
func (t *table) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	for _, service := range distinct(t.results, func(r result) string { return r.cell.service.name }) {
		rows := slices.DeleteFunc(slices.Clone(t.results), func(r result) bool { return r.cell.service.name != service })
		columns := distinct(rows, func(r result) string { return r.cell.column() })
		write(&b, "On "+service, rows, columns, outcome.String)
		write(&b, "On "+service+", from the fault to the rival's command", rows, columns, outcome.takeover)
	}
	hidden := distinct(t.results, func(r result) string {
		if r.why == "" {
			return ""
		}
		return r.cell.name() + ": " + r.why
	})
	for _, name := range hidden {
		if name != "" {
			fmt.Fprintln(&b, "not shown:", name)
		}
	}
	return b.String()
}

// write writes a table of what the outcomes say.
func write(b *strings.Builder, title string, rows []result, columns []string, say func(outcome) string) {
	fmt.Fprintf(b, "\n%s:\n\n| fault | %s |\n|---%s|\n", title, strings.Join(columns, " | "), strings.Repeat("|---", len(columns)))
	for _, f := range faults {
		line, any := "| "+f.name, false
		for _, column := range columns {
			text := entry(rows, f.name, column, say)
			any = any || text != "–"
			line += " | " + text
		}
		if any {
			b.WriteString(line + " |\n")
		}
	}
}

// entry is the text of a fault in a column: one figure, or one for each variant of the command.
func entry(rows []result, fault, column string, say func(outcome) string) string {
	var texts, variantsOf []string
	for _, v := range variants {
		for _, r := range rows {
			if r.cell.fault.name == fault && r.cell.column() == column && r.cell.variant == v {
				texts, variantsOf = append(texts, say(r.shown)), append(variantsOf, v)
			}
		}
	}
	switch same := slices.Compact(slices.Clone(texts)); {
	case len(texts) == 0:
		return "–"
	case len(same) == 1:
		return same[0]
	}
	for i := range texts {
		texts[i] = variantsOf[i] + " " + texts[i]
	}
	return strings.Join(texts, "; ")
}

// distinct returns the keys of results, in the order in which they come first among the sorted columns.
func distinct(results []result, key func(result) string) (keys []string) {
	sorted := slices.SortedStableFunc(slices.Values(results), func(a, b result) int { return cmp.Compare(a.cell.order, b.cell.order) })
	for _, r := range sorted {
		if k := key(r); !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	return keys
}
