package etcd_test

import (
	"flag"
	"testing"

	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/store/etcd"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "12"); err != nil { // most of them wait most of the time
		panic(err)
	}
	etcd.Save = save
	storetest.Main(m)
}
