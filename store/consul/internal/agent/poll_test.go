package agent

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-leadership/leadership/store"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
)

// A query asks from the index that is known, waits longer the longer nothing changes, and pauses before it asks again
// for what came at once without news, or not at all.
func TestPoll(t *testing.T) {
	type answer struct {
		after time.Duration
		index uint64
		err   error
	}
	lost := errors.New("lost")
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t)
		p := Poll{Index: 5, Wait: FirstWait}
		for i, step := range []struct {
			answer
			back  bool
			pause time.Duration // before it asks
			index uint64        // that it asks from
			wait  time.Duration
		}{
			{answer{time.Second, 7, nil}, false, 0, 5, FirstWait},
			{answer{5 * time.Second, 7, nil}, false, 0, 7, FirstWait},
			{answer{10 * time.Second, 7, nil}, false, 0, 7, 10 * time.Second},
			{answer{0, 7, nil}, true, 0, 7, 20 * time.Second},
			{answer{0, 7, nil}, true, 50 * time.Millisecond, 7, 20 * time.Second},
			{answer{20 * time.Second, 3, nil}, true, 100 * time.Millisecond, 7, 20 * time.Second},
			{answer{0, 0, nil}, true, 50 * time.Millisecond, 3, 20 * time.Second},
			{answer{0, 0, lost}, true, 100 * time.Millisecond, 1, 20 * time.Second},
			{answer{0, 0, lost}, true, 200 * time.Millisecond, 1, 20 * time.Second},
			{answer{0, 0, lost}, true, 400 * time.Millisecond, 1, 20 * time.Second},
			{answer{0, 0, lost}, true, 800 * time.Millisecond, 1, 20 * time.Second},
			{answer{0, 2, nil}, false, time.Second, 1, 20 * time.Second},
			{answer{20 * time.Second, 2, nil}, false, 0, 2, 20 * time.Second},
			{answer{40 * time.Second, 2, nil}, false, 0, 2, 40 * time.Second},
			{answer{80 * time.Second, 2, nil}, false, 0, 2, 80 * time.Second},
			{answer{160 * time.Second, 2, nil}, false, 0, 2, 160 * time.Second},
			{answer{5 * time.Minute, 2, nil}, false, 0, 2, 5 * time.Minute},
			{answer{0, 3, nil}, false, 0, 2, 5 * time.Minute},
		} {
			began := time.Now()
			back, err := p.Ask(t.Context(), c, func(q *api.QueryOptions) (*api.QueryMeta, error) {
				require.Equal(t, step.pause, time.Since(began), "step %d", i)
				require.Equal(t, step.index, q.WaitIndex, "step %d", i)
				require.Equal(t, step.wait, q.WaitTime, "step %d", i)
				time.Sleep(step.after)
				return &api.QueryMeta{LastIndex: step.answer.index}, step.err
			})
			require.Equal(t, step.err != nil, err != nil)
			require.Equal(t, step.back, back, "step %d", i)
		}
	})
}

// A query that is not answered is given up some time after its wait, however long that was.
func TestPollIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t)
		for _, wait := range []time.Duration{FirstWait, mostWait} {
			p := Poll{Index: 5, Wait: wait}
			began := time.Now()
			back, err := p.Ask(t.Context(), c, func(q *api.QueryOptions) (*api.QueryMeta, error) {
				<-q.Context().Done()
				return nil, q.Context().Err()
			})
			require.True(t, back)
			require.ErrorIs(t, err, store.ErrUnknownOutcome)
			require.Equal(t, wait*17/16+RequestLimit, time.Since(began), "agents add up to a sixteenth to the wait")
		}
	})
}
