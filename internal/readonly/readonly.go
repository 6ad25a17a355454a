// Package readonly has the conventions of this module's HTTP handlers, on which nothing can be changed.
package readonly

import (
	"encoding/json"
	"net/http"
)

// Allow sets the headers of each answer, and reports whether the method is one that changes nothing: GET, HEAD or
// OPTIONS, what a balancer uses by default. Other methods it refuses with 405.
func Allow(w http.ResponseWriter, r *http.Request) bool {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return true
	}
	w.Header().Set("Allow", "GET, HEAD, OPTIONS")
	http.Error(w, "nothing can be changed here", http.StatusMethodNotAllowed)
	return false
}

// JSON answers with a body in JSON.
func JSON(w http.ResponseWriter, code int, body any) {
	text, err := json.Marshal(body)
	if err != nil { // the types of the callers have no other values
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(text, '\n'))
}
