package testserver

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestZooKeeperConfig(t *testing.T) {
	t.Parallel()
	z := NewZooKeeper(t, ZooKeeperConfig{
		TickTime: 250 * time.Millisecond,
		Extra:    map[string]string{"maxSessionTimeout": "7000", "forceSync": "no"},
	})
	conf, err := z.Command(bounded(t), 0, "conf")
	require.NoError(t, err)
	require.Contains(t, conf, "tickTime=250\n")
	require.Contains(t, conf, "maxSessionTimeout=7000\n")
}
