// Package servers runs the conformance suite on servers: on one of each kind, which the tests start, or with -store
// on the cluster that a URL names.
package servers
