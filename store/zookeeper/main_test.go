package zookeeper_test

import (
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// sharedServer returns the server that most tests share. Its tick is 500 ms, so it grants sessions of 1 s to 10 s. It
// does not wait for the disk: each confirmation of a session is a write, and the disk of a busy machine can hang for a
// second.
var sharedServer = storetest.Shared(testserver.StartZooKeeper, testserver.ZooKeeperConfig{
	Extra: map[string]string{"forceSync": "no"},
})
