package file

import (
	"flag"
	"os"
	"syscall"
	"testing"

	"github.com/go-leadership/leadership/internal/localdir"
	"go.uber.org/goleak"
)

// TestMain runs the tests or, if a test has started this program again, the role of that process.
func TestMain(m *testing.M) {
	if role, ok := os.LookupEnv(roleVariable); ok {
		play(role)
		return
	}
	syscall.Umask(0o022)
	flag.Parse()
	if err := flag.Set("test.parallel", "32"); err != nil { // most of them wait most of the time
		panic(err)
	}
	if err := os.Setenv("TMPDIR", inMemory()); err != nil { // for the tests' directories
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// realDisk is the directory of TestOnDisk.
var realDisk = localdir.Temp()

// inMemory returns a directory on a file system in memory, if there is one: the tests make thousands of files, and a disk
// would take most of their time.
func inMemory() string {
	const shm = "/dev/shm"
	if kind, err := fileSystem(shm); err == nil && kind == tmpfs && syscall.Access(shm, 7) == nil {
		return shm
	}
	return localdir.Temp()
}
