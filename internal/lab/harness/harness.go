// Package harness runs the conformance suite on the servers that tests start.
package harness

import (
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	_ "github.com/go-leadership/leadership/store/all"
)

// The kinds of stores that speak to a service, with the TTL that the suite uses, and the bound that the store documents
// for this TTL, from a holder's crash until its successor leads.
var (
	ZooKeeper = Kind{"zookeeper", 3 * time.Second, 3*time.Second + 2*500*time.Millisecond} // two of the test server's ticks
	Etcd      = Kind{"etcd", 3 * time.Second, 4 * time.Second}
	Consul    = Kind{"consul", 3 * time.Second, 4500 * time.Millisecond}
	// ConsulSession is Consul with the least TTL that needs no check.
	ConsulSession = Kind{"consul", 10 * time.Second, 21 * time.Second}
)

// Patiently returns the kind with a TTL in which a cluster elects another leader on any machine.
func (k Kind) Patiently() Kind {
	const patient = 9 * time.Second // Consul takes a check below 10 s
	return Kind{k.Scheme, patient, k.Expiry - k.TTL + patient}
}

// Kind is a kind of store.
type Kind struct {
	Scheme string
	TTL    time.Duration
	Expiry time.Duration
}

// URL returns the URL of the store on the servers with these addresses.
func (k Kind) URL(addrs ...string) string {
	return k.Scheme + "://" + strings.Join(addrs, ",") + "/?ttl=" + k.TTL.String()
}

// On returns the harness of the store on the servers with these addresses.
func (k Kind) On(t *testing.T, addrs ...string) conformance.Harness {
	t.Helper()
	h, err := conformance.URL(k.URL(addrs...), "")
	if err != nil {
		t.Fatal(err)
	}
	h.Expiry = k.Expiry
	return h
}
