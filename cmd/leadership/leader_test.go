package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store/memory"
	"github.com/stretchr/testify/require"
)

// If the store stops answering while the subcommand waits, there might be a leader: the answer is not "no leader".
func TestWaitForALeaderWhileTheStoreIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, err := memory.Open(memory.NewService(), &memory.Config{TTL: 10 * time.Second})
		require.NoError(t, err)
		defer st.Close()
		s := &session{Store: st, address: "the store", timeout: 5 * time.Second}
		c := &leaderCmd{electionFlags: electionFlags{electionFlag: electionFlag{Election: "job"}}, Wait: time.Minute}
		time.AfterFunc(time.Second, st.Faults().Cut)
		began := time.Now()
		_, err = c.find(t.Context(), s)
		code, _ := explain(err)
		require.Equal(t, exitUnavailable, code, err)
		require.Equal(t, time.Minute+s.timeout, time.Since(began))

		time.AfterFunc(30*time.Second, st.Faults().Heal)
		leader, err := c.find(t.Context(), s)
		code, _ = explain(err)
		require.Equal(t, exitUnavailable, code, "%v %v", leader, err)
		time.Sleep(time.Minute)
		leader, err = c.find(t.Context(), s)
		require.NoError(t, err)
		require.Zero(t, leader)
	})
}
