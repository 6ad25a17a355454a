package engine

import (
	"container/list"
	"sync"
)

// rota is the order in which ballots and observations resync: read again what they know, since a watch might lose a change.
// A session has one more, of the elections that it audits. At each pace the first has its turn, and goes to the end. One
// that joins is last. So each of N has its turn within N paces, even while others come and go.
type rota struct {
	mu   sync.Mutex
	list list.List // of func(), guarded by mu
}

// join makes resync be called at each turn. It does not block. leave ends that.
func (r *rota) join(resync func()) *list.Element {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list.PushBack(resync)
}

func (r *rota) leave(e *list.Element) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list.Remove(e)
}

// advance gives the first its turn.
func (r *rota) advance() {
	r.mu.Lock()
	first := r.list.Front()
	if first != nil {
		r.list.MoveToBack(first)
	}
	r.mu.Unlock()
	if first != nil {
		first.Value.(func())()
	}
}
