package storetest

import (
	"slices"
	"strings"
	"sync"
)

// Requests are those that a tap on a store's line has seen, each as text, and the catches that wait for one of them.
type Requests[C any] struct {
	mu      sync.Mutex
	sent    []string     // guarded by mu, as is pending
	pending []pending[C] // the first that matches takes a request
}

type pending[C any] struct {
	catch *C
	parts []string
}

// Await lets a catch wait for the next request that has all of the parts in it.
func (r *Requests[C]) Await(catch *C, parts ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending = append(r.pending, pending[C]{catch, parts})
}

// Note records a request and returns the catch that has waited for it, or nil.
func (r *Requests[C]) Note(request string) *C {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = append(r.sent, request)
	for i, p := range r.pending {
		if Mentions(request, p.parts) {
			r.pending = slices.Delete(r.pending, i, i+1)
			return p.catch
		}
	}
	return nil
}

// Count counts the requests so far that have all of the parts in them.
func (r *Requests[C]) Count(parts ...string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, request := range r.sent {
		if Mentions(request, parts) {
			n++
		}
	}
	return n
}

// Mentions reports whether a request has all of the parts in it.
func Mentions(request string, parts []string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(request, part) })
}
