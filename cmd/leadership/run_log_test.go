package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// A writer that blocks does not delay the caller, and delays the end by logPatience only.
func TestLogThatIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, write := io.Pipe()
		log, end := newSteadyLog(write)
		for i := range logBacklog + 10 {
			fmt.Fprintf(log, "record %d\n", i)
			synctest.Wait() // the first is being written
		}
		var text bytes.Buffer
		_, err := io.CopyN(&text, read, int64(len("record 0\nrecord 1\n")))
		require.NoError(t, err)
		require.Equal(t, "record 0\nrecord 1\n", text.String())
		synctest.Wait()
		fmt.Fprintln(log, "the last")
		end() // returns although nothing is read
		fmt.Fprintln(log, "too late")

		text.Reset()
		go func() { _, _ = io.Copy(&text, read) }()
		<-log.done
		write.Close()
		synctest.Wait()
		lines := strings.Split(text.String(), "\n")
		require.Equal(t, []string{"leadership: 9 records of the log were left out: they were not read in time", "the last", ""}, lines[len(lines)-3:])
	})
}
