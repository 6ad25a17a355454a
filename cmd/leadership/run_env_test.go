package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The command gets the variables with which it finds the election, and none that are meant for another process.
func TestCommandEnv(t *testing.T) {
	inherited := []string{
		"PATH=/bin", "LEADERSHIP_STORE=old", "LEADERSHIP_TOKEN=1", "LEADERSHIP_READY_FD=3", "LEADERSHIP_CONFIG=/c",
		"LEADERSHIP_PASSWORD=secret", "NOTIFY_SOCKET=/n", "WATCHDOG_PID=1", "WATCHDOG_USEC=1", "EMPTY=", "ODD",
	}
	const url = "etcd://me@h:2379/?passwordenv=LEADERSHIP_PASSWORD"
	require.Equal(t, []string{
		"PATH=/bin", "LEADERSHIP_CONFIG=/c", "LEADERSHIP_PASSWORD=secret", "EMPTY=", "ODD",
		"LEADERSHIP_STORE=" + url, "LEADERSHIP_ELECTION=job", "LEADERSHIP_VALUE=a b",
	}, commandEnv(inherited, url, "job", "a b"))
	require.Equal(t, []string{"LEADERSHIP_ELECTION=job", "LEADERSHIP_VALUE="},
		commandEnv([]string{"LEADERSHIP_STORE=etcd://me:secret@h/"}, "etcd://me:secret@h/", "job", ""))
}
