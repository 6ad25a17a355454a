package sqltest

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

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
