package kvwatch

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-leadership/leadership/store/consul/internal/agent"
)

const (
	// mostSections is how many sections there are at most.
	mostSections = 32
	// fewKeys is how many keys a section has at least before it is divided.
	fewKeys = batch / 2
)

// plan divides the shared watches into sections, for programs that stand in hundreds of elections: a change then costs each
// store some transactions, and not one for each 120 of its keys (TestVerifiedKeys). It belongs to runShared.
type plan struct {
	sections map[string]*query // by prefix
	keys     int               // that there were when they were divided
}

// query is the query of a section.
type query struct {
	prefix string             // constant
	ctx    context.Context    // ends when there is no such section any more; nil before the first query, as is cancel
	cancel context.CancelFunc // of ctx
	poll   agent.Poll         // used by the one who asks
	asking bool               // guarded by the watcher's mu
}

// update gives each watch its section. It divides the watches anew if a key is in no section, or their number has changed
// much, and reports whether it did: then what a query was about to report might be lost. The sections that stay keep their
// queries. The caller holds the watcher's mu.
func (p *plan) update(root string, list []*watch) (anew bool) {
	anew = len(list) > 2*p.keys || 2*len(list) < p.keys
	keys := make([]string, len(list))
	for i, w := range list {
		keys[i] = w.key
		anew = anew || p.find(w.key) == nil
	}
	if anew {
		before := p.sections
		p.sections, p.keys = map[string]*query{}, len(keys)
		for _, prefix := range divide(root, keys) {
			p.sections[prefix] = cmp.Or(before[prefix], &query{prefix: prefix})
			delete(before, prefix)
		}
		for _, q := range before {
			if q.cancel != nil {
				q.cancel()
			}
		}
	}
	for _, w := range list {
		w.section = p.find(w.key)
	}
	return anew
}

// find returns the section of a key, the one with the longest prefix, or nil.
func (p *plan) find(key string) (found *query) {
	for prefix, q := range p.sections {
		if strings.HasPrefix(key, prefix) && (found == nil || len(prefix) > len(found.prefix)) {
			found = q
		}
	}
	return found
}

// divide divides keys that begin with a root into sections, and returns their prefixes. It divides the largest section again
// and again, at the first letter in which its keys differ.
func divide(root string, keys []string) []string {
	slices.Sort(keys)
	open := map[string][]string{root: keys} // might be divided
	var done []string
	for len(open) > 0 {
		largest := ""
		for prefix, keys := range open {
			if largest == "" || len(keys) > len(open[largest]) || len(keys) == len(open[largest]) && prefix < largest {
				largest = prefix
			}
		}
		parts := branches(open[largest])
		if len(open[largest]) <= fewKeys || len(done)+len(open)-1+len(parts) > mostSections || len(parts) == 0 {
			done = append(done, largest)
			delete(open, largest)
			continue
		}
		delete(open, largest)
		for prefix, keys := range parts {
			open[prefix] = keys
		}
	}
	return done
}

// branches divides sorted keys at the first letter in which they differ. A key that ends there is alone; its prefix is that of
// the others too. It returns nothing if the agent might refuse a query for one of the prefixes.
func branches(keys []string) map[string][]string {
	first, last := keys[0], keys[len(keys)-1]
	n := 0
	for n < len(first) && n < len(last) && first[n] == last[n] {
		n++
	}
	parts := map[string][]string{}
	for _, key := range keys {
		_, letter := utf8.DecodeRuneInString(key[n:])
		prefix := key[:n+letter]
		if !agent.Plain(prefix) {
			return nil
		}
		parts[prefix] = append(parts[prefix], key)
	}
	if len(parts) == 1 {
		return nil
	}
	return parts
}
