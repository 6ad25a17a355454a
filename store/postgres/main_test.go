package postgres_test

import (
	"flag"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
)

// every is for hours to spare: the rounds of TestCandidatesAtOnce, the late writes of TestFence and the terms of TestBloat
// are many more.
var every = flag.Bool("every", false, "do everything as often as `make long` does")

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "10"); err != nil { // most of them wait most of the time
		panic(err)
	}
	storetest.Main(m)
}

var (
	// sharedServer returns the server that most tests share. Each has a schema of its own there.
	sharedServer = storetest.Shared(testserver.StartPostgres, testserver.PostgresConfig{Extra: map[string]string{"max_connections": "600"}})
	// sharedWithoutVacuum returns another one.
	sharedWithoutVacuum = storetest.Shared(testserver.StartPostgres, testserver.PostgresConfig{Extra: map[string]string{"autovacuum": "off"}})
)
