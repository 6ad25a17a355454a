package etcd_test

import (
	"flag"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "12"); err != nil { // most of them wait most of the time
		panic(err)
	}
	storetest.Main(m)
}

// fast makes a server's writes spare the disk: the tests that use it are not about what survives a crash.
var fast = []string{"--unsafe-no-fsync"}

// sharedServer returns the server that most tests share: a single one that grants leases of 2 s and more.
var sharedServer = storetest.Shared(testserver.StartEtcd, testserver.EtcdConfig{Extra: fast})
