package consul_test

import (
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
)

func TestMain(m *testing.M) { storetest.Main(m, plain.CloseIdleConnections) }

// sharedServer returns the server that most tests share.
var sharedServer = storetest.Shared(testserver.StartConsul, testserver.ConsulConfig{})
