package kubernetes

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// event is a change of an object.
type event struct {
	kind     string // ADDED or MODIFIED
	resource resource
	object   object
	version  int
}

// list lists the objects of a resource in all namespaces, or watches them.
func (s *Server) list(w http.ResponseWriter, r *http.Request, res resource) {
	s.mu.Lock()
	var items []object
	for path, o := range s.objects {
		if strings.HasPrefix(path, res.group+"/") && o["kind"] == res.kind {
			items = append(items, o)
		}
	}
	version, seen := strconv.Itoa(s.version), len(s.events)
	s.mu.Unlock()

	query := r.URL.Query()
	if query.Get("watch") != "true" {
		answer(w, http.StatusOK, object{
			"kind": res.kind + "List", "apiVersion": res.version(), "metadata": object{"resourceVersion": version}, "items": items,
		})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	send := func(kind string, o object) { _ = json.NewEncoder(w).Encode(object{"type": kind, "object": o}) }
	if query.Get("sendInitialEvents") == "true" {
		for _, o := range items {
			send("ADDED", o)
		}
		send("BOOKMARK", object{"kind": res.kind, "apiVersion": res.version(), "metadata": object{
			"resourceVersion": version, "annotations": object{"k8s.io/initial-events-end": "true"},
		}})
	} else {
		seen = 0
	}
	since, _ := strconv.Atoi(query.Get("resourceVersion"))
	for {
		_ = http.NewResponseController(w).Flush()
		s.mu.Lock()
		events, news := s.events[seen:], s.news
		s.mu.Unlock()
		seen += len(events)
		for _, e := range events {
			if e.resource == res && e.version > since {
				send(e.kind, e.object)
			}
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-news:
		case <-r.Context().Done():
			return
		case <-s.closing:
			return
		}
	}
}
