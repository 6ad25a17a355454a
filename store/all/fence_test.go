package all_test

import (
	"errors"
	"testing"

	"github.com/go-leadership/leadership/store"
	"github.com/go-leadership/leadership/store/consul"
	"github.com/go-leadership/leadership/store/etcd"
	"github.com/go-leadership/leadership/store/zookeeper"
	"github.com/stretchr/testify/require"
)

// Each fence takes the ballots of its own store alone.
func TestFencesTakeTheirOwnBallots(t *testing.T) {
	fences := map[string]func(store.Ballot) error{
		"zookeeper": func(b store.Ballot) error { _, err := zookeeper.Fence(b); return err },
		"etcd":      func(b store.Ballot) error { _, err := etcd.Fence(b); return err },
		"consul":    func(b store.Ballot) error { _, err := consul.Fence(b); return err },
	}
	ballots := map[string]store.Ballot{"nil": nil}
	for _, kind := range kinds {
		ballots[kind], _ = lead(t, open(t, on(t, kind, "ttl=10s"), nil), newElection(), "own")
	}
	for of, fence := range fences {
		for kind, b := range ballots {
			if err := fence(b); kind == of {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, errors.ErrUnsupported, "%s.Fence of a ballot of %s", of, kind)
			}
		}
	}
}
