package testserver

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(orphanVariable) != "" {
		startAndHang()
	}
	goleak.VerifyTestMain(m)
}
