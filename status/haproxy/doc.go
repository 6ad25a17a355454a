// Package haproxy has no code of its own. Its tests put a real HAProxy, with the configuration that docs/haproxy.md
// shows, before three processes that use package status, and kill, freeze and cut off the one that leads.
package haproxy
