package kubernetes

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
)

// one reads or writes one object.
func (s *Server) one(w http.ResponseWriter, r *http.Request, res resource, namespace string) {
	switch r.Method {
	case http.MethodGet:
		s.mu.Lock()
		defer s.mu.Unlock()
		if found := s.objects[r.URL.Path]; found != nil {
			answer(w, http.StatusOK, found)
			return
		}
		notFound(w)
	case http.MethodPut, http.MethodPatch:
		s.write(w, r, res, namespace)
	default:
		fail(w, http.StatusMethodNotAllowed, "MethodNotAllowed", "method not allowed")
	}
}

// write creates, replaces or patches an object. A version in the request is a condition.
func (s *Server) write(w http.ResponseWriter, r *http.Request, res resource, namespace string) {
	patch := r.Method == http.MethodPatch
	if t := r.Header.Get("Content-Type"); t != "application/json" && !patch || t != "application/merge-patch+json" && patch {
		fail(w, http.StatusUnsupportedMediaType, "UnsupportedMediaType", t)
		return
	}
	var sent object
	if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
		fail(w, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	path, version := r.URL.Path, meta(sent)["resourceVersion"]
	if r.Method == http.MethodPost {
		name, _ := meta(sent)["name"].(string)
		path += "/" + name
		if version != nil {
			fail(w, http.StatusBadRequest, "BadRequest", "resourceVersion should not be set on objects to be created")
			return
		}
		if s.objects[path] != nil {
			fail(w, http.StatusConflict, "AlreadyExists", "already exists")
			return
		}
	}
	old := s.objects[path]
	switch {
	case r.Method != http.MethodPost && old == nil:
		notFound(w)
		return
	case version != nil && version != meta(old)["resourceVersion"]:
		fail(w, http.StatusConflict, "Conflict", "the object has been modified; please apply your changes to the latest version and try again")
		return
	case patch:
		sent, _ = merged(old, sent).(object)
	}
	if message := invalid(res, old, sent, path); message != "" {
		fail(w, http.StatusUnprocessableEntity, "Invalid", message)
		return
	}
	s.version++
	m := meta(sent)
	m["namespace"], m["resourceVersion"], m["uid"] = namespace, strconv.Itoa(s.version), "uid of "+path
	s.objects[path] = sent
	kind := "MODIFIED"
	if old == nil {
		kind = "ADDED"
	}
	s.events = append(s.events, event{kind: kind, resource: res, object: sent, version: s.version})
	close(s.news)
	s.news = make(chan struct{})
	status := http.StatusOK
	if old == nil {
		status = http.StatusCreated
	}
	answer(w, status, sent)
}

// meta returns the metadata of an object, which might have none.
func meta(o object) object {
	m, _ := o["metadata"].(object)
	return m
}

// invalid returns why an API server would refuse an object, as far as the tests come to that.
func invalid(res resource, old, sent object, path string) string {
	if sent["apiVersion"] != res.version() || sent["kind"] != res.kind {
		return "apiVersion and kind are those of another resource"
	}
	if name, _ := meta(sent)["name"].(string); name == "" || !strings.HasSuffix(path, "/"+name) {
		return "the name is not that of the path"
	}
	if res.kind != "EndpointSlice" {
		return ""
	}
	if t := sent["addressType"]; t != "IPv4" && t != "IPv6" || old != nil && old["addressType"] != t {
		return "addressType is immutable, and IPv4 or IPv6"
	}
	endpoints, _ := sent["endpoints"].([]any)
	for _, e := range endpoints {
		endpoint, _ := e.(object)
		addresses, _ := endpoint["addresses"].([]any)
		for _, a := range addresses {
			text, _ := a.(string)
			ip, err := netip.ParseAddr(text)
			if err != nil || ip.Is4() != (sent["addressType"] == "IPv4") {
				return "an address is not one of addressType"
			}
		}
	}
	return ""
}

// merged returns a value with a patch of RFC 7386. It changes neither.
func merged(old, patch any) any {
	changes, ok := patch.(object)
	if !ok {
		return patch
	}
	result := object{}
	if from, ok := old.(object); ok {
		for k, v := range from {
			result[k] = v
		}
	}
	for k, v := range changes {
		if v == nil {
			delete(result, k)
		} else {
			result[k] = merged(result[k], v)
		}
	}
	return result
}
