package etcd

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Elections reads page by page, and of an election with many ballots one page. Keys that are no ballots are no
// elections.
func TestElectionsPageByPage(t *testing.T) {
	t.Parallel()
	prefix := newElection()
	client := operator(t)
	put := func(pattern string, n int) {
		t.Helper()
		for from := 0; from < n; from += 100 {
			var ops []clientv3.Op
			for i := from; i < min(n, from+100); i++ {
				ops = append(ops, clientv3.OpPut(prefix+"/"+fmt.Sprintf(pattern, i), "x"))
			}
			_, err := client.Txn(soon(t)).Then(ops...).Commit()
			require.NoError(t, err)
		}
	}
	put("a/_ballots/%06d", 2500)
	put("b%06d/_ballots/1", 1500)
	put("c%06d", 100)
	put("z/_ballots/%d", 1)
	tp := newTap(t)
	st := open(t, Config{Client: tp.client, Prefix: prefix})
	names, err := st.Elections(soon(t))
	require.NoError(t, err)
	require.Len(t, names, 1502)
	require.Equal(t, []string{"a", "b000000", "z"}, []string{names[0], names[1], names[1501]})
	require.Equal(t, 3, tp.Count(readTxn, `key:"`+prefix+"/", "keys_only"), "of 4,101 keys")
}
