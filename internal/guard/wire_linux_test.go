package guard

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLastWordsAreHeard checks that what one end has sent arrives, although it closes the link with a message unread: a
// guardian that exits need not have read the last renewal.
func TestLastWordsAreHeard(t *testing.T) {
	ours, theirs, err := newLinks()
	require.NoError(t, err)
	defer ours.file.Close()
	require.NoError(t, theirs.send(report{Failed: "not found"}))
	require.NoError(t, theirs.send(report{Exited: true}))
	require.NoError(t, ours.send(request{Deadline: now().add(time.Minute)}))
	require.NoError(t, theirs.file.Close())

	reports := make(chan report)
	go receive(ours, reports)
	require.Equal(t, report{Failed: "not found"}, <-reports)
	require.Equal(t, report{Exited: true}, <-reports)
	_, open := <-reports
	require.False(t, open)
}
