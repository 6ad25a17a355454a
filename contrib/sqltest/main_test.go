package sqltest

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// watchdog ends a wait for what ought to take seconds.
const watchdog = 2 * time.Minute

func TestMain(m *testing.M) {
	code := m.Run()
	err := errors.Join(postgresql.stop(), mariadb.stop())
	if code == 0 {
		err = errors.Join(err, goleak.Find())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
