// Package kubernetes stands in for an API server of Kubernetes: ConfigMaps and EndpointSlices, with versions,
// conflicts, merge patches, lists and watches, in JSON. There is no other way to test without a cluster.
package kubernetes

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Server is an API server on a port of its own.
type Server struct {
	*httptest.Server
	closing chan struct{} // closed when the test ends

	mu      sync.Mutex
	version int               // guarded by mu, as are all below: the last resourceVersion
	objects map[string]object // by path
	events  []event           // all that have happened
	news    chan struct{}     // closed and replaced with each event
	before  func(*http.Request) (status int)
}

// object is an object in JSON.
type object = map[string]any

// resource is a kind of objects.
type resource struct{ group, plural, kind string }

var resources = []resource{
	{"/api/v1", "configmaps", "ConfigMap"},
	{"/apis/discovery.k8s.io/v1", "endpointslices", "EndpointSlice"},
}

// New starts a server with TLS, which the end of the test stops. Each request has to carry the token.
func New(t testing.TB, token string) *Server {
	s := &Server{closing: make(chan struct{}), objects: map[string]object{}, news: make(chan struct{})}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			fail(w, http.StatusUnauthorized, "Unauthorized", "Unauthorized")
			return
		}
		s.mu.Lock()
		before := s.before
		s.mu.Unlock()
		if before != nil {
			if status := before(r); status != 0 {
				fail(w, status, strings.ReplaceAll(http.StatusText(status), " ", ""), "the test refuses it")
				return
			}
		}
		s.serve(w, r)
	}))
	t.Cleanup(func() {
		close(s.closing)
		s.Close()
	})
	return s
}

// Before has the function called before each request from now on. It might hold the request back, or refuse it with a
// status.
func (s *Server) Before(before func(*http.Request) (status int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = before
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/api":
		answer(w, http.StatusOK, object{"kind": "APIVersions", "versions": []string{"v1"}})
		return
	case "/apis":
		version := object{"groupVersion": "discovery.k8s.io/v1", "version": "v1"}
		group := object{"name": "discovery.k8s.io", "versions": []object{version}, "preferredVersion": version}
		answer(w, http.StatusOK, object{"kind": "APIGroupList", "apiVersion": "v1", "groups": []object{group}})
		return
	}
	for _, res := range resources {
		path, below := strings.CutPrefix(r.URL.Path, res.group)
		if !below {
			continue
		}
		parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
		switch {
		case path == "":
			answer(w, http.StatusOK, object{
				"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": res.version(),
				"resources": []object{{"name": res.plural, "namespaced": true, "kind": res.kind, "verbs": []string{"get", "list", "watch"}}},
			})
		case len(parts) == 1 && parts[0] == res.plural && r.Method == http.MethodGet:
			s.list(w, r, res)
		case len(parts) == 3 && parts[0] == "namespaces" && parts[2] == res.plural && r.Method == http.MethodPost:
			s.write(w, r, res, parts[1])
		case len(parts) == 4 && parts[0] == "namespaces" && parts[2] == res.plural:
			s.one(w, r, res, parts[1])
		default:
			notFound(w)
		}
		return
	}
	notFound(w)
}

// version returns the version of the API as objects name it.
func (r resource) version() string {
	_, version, _ := strings.Cut(strings.TrimPrefix(r.group, "/"), "/")
	return version
}

func notFound(w http.ResponseWriter) { fail(w, http.StatusNotFound, "NotFound", "not found") }

// fail answers with an error.
func fail(w http.ResponseWriter, status int, reason, message string) {
	answer(w, status, object{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": status,
	})
}

func answer(w http.ResponseWriter, status int, body object) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
