// Package server tests package prom, its alerts and its dashboard with a real Prometheus and its promtool. They have to be in
// the PATH: scripts/setup prometheus installs them.
package server
