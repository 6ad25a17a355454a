//go:build !linux

package file

import (
	"runtime"

	"github.com/go-leadership/leadership/internal/adapter"
	"github.com/go-leadership/leadership/store/engine"
)

func newDriver(c Config) (engine.Driver, error) {
	return nil, adapter.Refuse("file URL", c.name(), "the store needs Linux, and this is %s: use memory:// for one process, "+
		"or ZooKeeper, etcd or Consul", runtime.GOOS)
}
