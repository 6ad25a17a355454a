package postgres

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRenewalsAfterAFailover: until the entries have been read again, no renewal prolongs the lease of a ballot that
// might have been lost.
func TestRenewalsAfterAFailover(t *testing.T) {
	d, err := newDriver(Config{Addresses: []string{"127.0.0.1:1"}, User: "x", Database: "x"})
	require.NoError(t, err)
	defer d.Close()
	require.True(t, d.inEpoch(3))
	require.True(t, d.allRead(), "nothing has been told before")
	require.False(t, d.over, "the first epoch is no failover")
	require.True(t, d.inEpoch(4))
	require.False(t, d.allRead(), "a renewal counts before the entries have been read again")
	entry, leader := &watch{token: 7}, &watch{election: "x"}
	d.watches.add(entry)
	d.watches.add(leader)
	d.watches.fresh = []*watch{entry, leader}
	over := d.next()
	require.Equal(t, []*watch{leader}, over.list, "the watches of leaders end, and others don't")
	require.Equal(t, []*watch{entry}, d.watches.fresh, "the end of a watch is its answer")
	again := d.next()
	require.True(t, again.all)
	require.Equal(t, []*watch{entry}, again.list)
	require.Equal(t, []*watch{entry}, again.fresh, "a watch that has ended is not answered again: there is room for one answer")
}
