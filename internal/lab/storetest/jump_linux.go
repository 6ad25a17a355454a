package storetest

import (
	"errors"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Jump makes the wall clock jump by a nanosecond. The kernel tells that as it tells that the machine has resumed from a
// suspension.
func Jump(t *testing.T) {
	t.Helper()
	const setOffset, nano = 0x0100, 0x2000 // ADJ_SETOFFSET and ADJ_NANO, from linux/timex.h
	_, err := syscall.Adjtimex(&syscall.Timex{Modes: setOffset | nano, Time: syscall.Timeval{Usec: 1}})
	if errors.Is(err, syscall.EPERM) {
		t.Skip("to set the clock takes CAP_SYS_TIME")
	}
	require.NoError(t, err)
}
