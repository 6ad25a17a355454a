package postgres_test

import (
	"flag"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil { // most of them wait most of the time
		panic(err)
	}
	storetest.Main(m)
}

// sharedServer returns the server that the tests share which do it no harm.
var sharedServer = storetest.Shared(testserver.StartPostgres, testserver.PostgresConfig{})
