package main

import (
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// docs/command.md has the flags, variables, exit codes and times of run.
func TestRunDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/command.md")
	require.NoError(t, err)
	text := string(page)
	for _, code := range []int{exitUsage, exitLost, exitNeverLed, exitFailed, 126, 127} {
		require.Contains(t, text, fmt.Sprintf("\n| %d | ", code))
		require.Contains(t, (&runCmd{}).Help(), fmt.Sprint(code, ": "))
	}
	for _, variable := range commandVariables {
		require.Contains(t, text, "`"+variable+"`")
	}
	for _, flag := range []string{
		"again", "again-limit", "hold", "log-level", "ready-exec", "ready-fd", "ready-http", "ready-timeout", "stop-timeout", "strict",
		"unguarded", "value", "wait", "wait-all",
	} {
		require.Regexp(t, "`(leadership run )?--"+flag+"[`=]", text)
	}
	rows := regexp.MustCompile(`(?m)^\| (\S+) \| (\S+) \| (\S+) \| (\S+) \|$`).FindAllStringSubmatch(text, -1)
	shown := 0
	for _, row := range rows {
		ttl, err := time.ParseDuration(row[1])
		if err != nil {
			continue
		}
		shown++
		most := times(ttl, ttl/3).MaxStopTimeout()
		require.Equal(t, row[2], most.Round(time.Millisecond).String(), row[1])
		require.Equal(t, row[3], defaultStopTimeout(most).Round(time.Millisecond).String(), row[1])
		require.Equal(t, row[4], (most - defaultStopTimeout(most)).Round(time.Millisecond).String(), row[1])
	}
	require.Equal(t, 6, shown)
}
