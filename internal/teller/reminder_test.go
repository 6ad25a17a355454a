package teller_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/internal/teller"
	"github.com/stretchr/testify/require"
)

func TestReminder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r teller.Reminder
		began := time.Now()
		var due []time.Duration
		for range 4 * 60 * 60 {
			if r.Due() {
				due = append(due, time.Since(began)/time.Minute)
			}
			time.Sleep(time.Second)
		}
		require.Equal(t, []time.Duration{0, 1, 3, 7, 15, 31, 63, 123, 183}, due)
	})
}
