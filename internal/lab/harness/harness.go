// Package harness runs the conformance suite on the servers that tests start. It knows stores by the schemes of their
// URLs alone: a test imports the store that registers the scheme, which can be in a module of its own.
package harness

import (
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/testserver"
)

// The kinds of stores that speak to a service, with the TTL that the suite uses, and the bound that the store documents
// for this TTL, from a holder's crash until its successor leads.
var (
	ZooKeeper = Kind{Scheme: "zookeeper", TTL: 3 * time.Second, Expiry: 3*time.Second + 2*500*time.Millisecond} // two of the test server's ticks
	Etcd      = Kind{Scheme: "etcd", TTL: 3 * time.Second, Expiry: 4 * time.Second}
	Consul    = Kind{Scheme: "consul", TTL: 3 * time.Second, Expiry: 4500 * time.Millisecond}
	// ConsulSession is Consul with the least TTL that needs no check.
	ConsulSession = Kind{Scheme: "consul", TTL: 10 * time.Second, Expiry: 21 * time.Second}
	// Postgres is PostgreSQL as testserver starts it by default, which trusts its superuser.
	Postgres = Kind{Scheme: "postgres", User: testserver.PostgresUser, Database: "postgres", TTL: 3 * time.Second, Expiry: 4750 * time.Millisecond}
)

// Patiently returns the kind with a TTL in which a cluster elects another leader on any machine, and of which a busy
// machine may lose seconds.
func (k Kind) Patiently() Kind {
	const patient = 9 * time.Second // Consul takes a check below 10 s
	k.TTL, k.Expiry = patient, k.Expiry-k.TTL+patient
	return k
}

// Kind is a kind of store.
type Kind struct {
	Scheme         string
	User, Database string // in the URL, if the store needs them
	TTL            time.Duration
	Expiry         time.Duration
}

// URL returns the URL of the store on the servers with these addresses.
func (k Kind) URL(addrs ...string) string {
	user := k.User
	if user != "" {
		user += "@"
	}
	return k.Scheme + "://" + user + strings.Join(addrs, ",") + "/" + k.Database + "?ttl=" + k.TTL.String()
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
