package zookeeper_test

import (
	"flag"
	"sync"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
)

func TestMain(m *testing.M) {
	// The tests mostly wait. A -parallel on the command line is parsed later and wins.
	if err := flag.Set("test.parallel", "24"); err != nil {
		panic(err)
	}
	storetest.Main(m)
}

// quick are the settings of the servers. Their tick is 500 ms, so they grant sessions of 1 s to 60 s. They do not wait for
// the disk: each confirmation of a session is a write, and the disk of a busy machine can hang for a second.
var quick = map[string]string{"forceSync": "no", "maxSessionTimeout": "60000"}

// sharedServer returns the server that most tests share.
var sharedServer = storetest.Shared(testserver.StartZooKeeper, testserver.ZooKeeperConfig{Extra: quick})

var (
	startFaulty = storetest.Shared(testserver.StartZooKeeper, testserver.ZooKeeperConfig{Extra: quick})
	faultyInUse sync.Mutex
)

// faultyServer returns a server that the test may stop and pause: no other test uses it meanwhile. It runs afterwards.
func faultyServer(t *testing.T) *testserver.ZooKeeper {
	t.Helper()
	faultyInUse.Lock()
	t.Cleanup(faultyInUse.Unlock)
	server := startFaulty(t)
	t.Cleanup(func() {
		if member := server.Member(0); !t.Failed() {
			return
		} else if member.Resume() != nil {
			_ = member.Start(soon(t))
		}
	})
	return server
}
