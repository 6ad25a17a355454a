package consul_test

import (
	"flag"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // most of them wait most of the time
		panic(err)
	}
	storetest.Main(m, plain.CloseIdleConnections)
}

// sharedServer returns the server that most tests share. It grants the tests as many connections as they need together.
var sharedServer = storetest.Shared(testserver.StartConsul, testserver.ConsulConfig{
	Extra: "limits { http_max_conns_per_client = 10000 }",
})
