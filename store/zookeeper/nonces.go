package zookeeper

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// nonces are those in the names of a store's ballots. They all begin alike, with what no other store's do: so a store
// tells a ballot of its own that has no owner any more. One appears if the service is set back to an earlier state
// while its session lives, and would block the election for as long.
type nonces struct {
	stem string

	mu       sync.Mutex
	issued   uint64              // guarded by mu, as are the others
	used     map[string]struct{} // by a cast under way or a ballot that is not lost
	removing map[string]struct{} // paths of ballots without an owner
}

func newNonces() *nonces {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return &nonces{stem: hex.EncodeToString(b[:]), used: map[string]struct{}{}, removing: map[string]struct{}{}}
}

// take returns a nonce for a ballot. It has to be freed when the ballot is lost.
func (n *nonces) take() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.issued++
	nonce := fmt.Sprintf("%s%x", n.stem, n.issued)
	n.used[nonce] = struct{}{}
	return nonce
}

func (n *nonces) free(nonce string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.used, nonce)
}

// unowned returns the paths of ballots of this store, among the nodes of an election, that have no owner: those that
// have not been returned before.
func (n *nonces) unowned(l layout, dir string, nodes []string) (paths []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for path := range n.removing {
		if name, ok := strings.CutPrefix(path, dir+"/"); ok && !slices.Contains(nodes, name) {
			delete(n.removing, path)
		}
	}
	for _, name := range nodes {
		rest, ok := strings.CutPrefix(name, l.prefix+"_"+n.stem)
		if !ok {
			continue
		}
		count, _, _ := strings.Cut(rest, "_")
		path := dir + "/" + name
		_, used := n.used[n.stem+count]
		_, known := n.removing[path]
		if !used && !known {
			n.removing[path] = struct{}{}
			paths = append(paths, path)
		}
	}
	return paths
}
