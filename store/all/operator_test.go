package all_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// entry is a key, or a node, as the service's own client sees it.
type entry struct {
	path              string
	value             string
	created, modified uint64
	session           string
}

// operator reads and changes a service through the service's own client.
type operator interface {
	// get returns the entry at a path.
	get(t *testing.T, path string) entry
	// list returns the entries directly below a path.
	list(t *testing.T, path string) []entry
	// put writes a foreign value to a path, which belongs to no session.
	put(t *testing.T, path, value string)
	remove(t *testing.T, path string)
	// end ends the session that an entry belongs to.
	end(t *testing.T, session string)
	// write writes something that has nothing to do with elections.
	write(t *testing.T)
}

// newOperator returns an operator of the server at the address.
func newOperator(t *testing.T, kind, address string) operator {
	t.Helper()
	switch kind {
	case "zookeeper":
		conn, _, err := zk.Connect([]string{address}, 10*time.Second, zk.WithLogger(silent{}))
		require.NoError(t, err)
		t.Cleanup(conn.Close)
		return &zooKeeperOperator{conn}
	case "etcd":
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, Logger: zap.NewNop()})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, client.Close()) })
		return &etcdOperator{client}
	}
	transport := api.DefaultNonPooledConfig().Transport
	client, err := api.NewClient(&api.Config{Address: address, Transport: transport})
	require.NoError(t, err)
	t.Cleanup(transport.CloseIdleConnections)
	return &consulOperator{client}
}

type silent struct{}

func (silent) Printf(string, ...any) {}

type zooKeeperOperator struct{ conn *zk.Conn }

func (o *zooKeeperOperator) get(t *testing.T, path string) entry {
	t.Helper()
	_, err := o.conn.Sync(path)
	require.NoError(t, err)
	data, stat, err := o.conn.Get(path)
	require.NoError(t, err)
	session := strconv.FormatInt(stat.EphemeralOwner, 10)
	return entry{path, string(data), uint64(stat.Czxid), uint64(stat.Mzxid), session}
}

func (o *zooKeeperOperator) list(t *testing.T, path string) (list []entry) {
	t.Helper()
	for _, name := range o.names(t, path) {
		list = append(list, o.get(t, path+"/"+name))
	}
	return list
}

// names returns the names of the nodes below a path. Unlike list it needs no permission to read them, and they may be
// deleted meanwhile.
func (o *zooKeeperOperator) names(t *testing.T, path string) []string {
	t.Helper()
	_, err := o.conn.Sync(path)
	require.NoError(t, err)
	names, _, err := o.conn.Children(path)
	require.NoError(t, err)
	return names
}

func (o *zooKeeperOperator) put(t *testing.T, path, value string) {
	t.Helper()
	_, err := o.conn.Create(path, []byte(value), 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
}

func (o *zooKeeperOperator) remove(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, o.conn.Delete(path, -1))
}

func (o *zooKeeperOperator) end(t *testing.T, _ string) {
	t.Helper()
	require.FailNow(t, "a session of ZooKeeper's can't be ended without its password")
}

func (o *zooKeeperOperator) write(t *testing.T) {
	t.Helper()
	_, err := o.conn.Set("/", nil, -1)
	require.NoError(t, err)
}

type etcdOperator struct{ client *clientv3.Client }

func (o *etcdOperator) get(t *testing.T, path string) entry {
	t.Helper()
	list := o.read(t, path)
	require.Len(t, list, 1)
	return list[0]
}

func (o *etcdOperator) list(t *testing.T, path string) []entry {
	t.Helper()
	return o.read(t, path+"/", clientv3.WithPrefix())
}

func (o *etcdOperator) read(t *testing.T, path string, opts ...clientv3.OpOption) (list []entry) {
	t.Helper()
	resp, err := o.client.Get(soon(t), path, opts...)
	require.NoError(t, err)
	for _, kv := range resp.Kvs {
		session := strconv.FormatInt(kv.Lease, 10)
		list = append(list, entry{string(kv.Key), string(kv.Value), uint64(kv.CreateRevision), uint64(kv.ModRevision), session})
	}
	return list
}

func (o *etcdOperator) put(t *testing.T, path, value string) {
	t.Helper()
	_, err := o.client.Put(soon(t), path, value)
	require.NoError(t, err)
}

func (o *etcdOperator) remove(t *testing.T, path string) {
	t.Helper()
	_, err := o.client.Delete(soon(t), path)
	require.NoError(t, err)
}

func (o *etcdOperator) end(t *testing.T, session string) {
	t.Helper()
	id, err := strconv.ParseInt(session, 10, 64)
	require.NoError(t, err)
	_, err = o.client.Revoke(soon(t), clientv3.LeaseID(id))
	require.NoError(t, err)
}

func (o *etcdOperator) write(t *testing.T) {
	t.Helper()
	_, err := o.client.Put(soon(t), "something else", "")
	require.NoError(t, err)
}

type consulOperator struct{ client *api.Client }

func (o *consulOperator) get(t *testing.T, path string) entry {
	t.Helper()
	pair, _, err := o.client.KV().Get(path, &api.QueryOptions{RequireConsistent: true})
	require.NoError(t, err)
	require.NotNil(t, pair)
	return entry{pair.Key, string(pair.Value), pair.CreateIndex, pair.ModifyIndex, pair.Session}
}

func (o *consulOperator) list(t *testing.T, path string) (list []entry) {
	t.Helper()
	pairs, _, err := o.client.KV().List(path+"/", &api.QueryOptions{RequireConsistent: true})
	require.NoError(t, err)
	for _, pair := range pairs {
		require.True(t, strings.HasPrefix(pair.Key, path+"/"))
		list = append(list, entry{pair.Key, string(pair.Value), pair.CreateIndex, pair.ModifyIndex, pair.Session})
	}
	return list
}

func (o *consulOperator) put(t *testing.T, path, value string) {
	t.Helper()
	_, err := o.client.KV().Put(&api.KVPair{Key: path, Value: []byte(value)}, nil)
	require.NoError(t, err)
}

func (o *consulOperator) remove(t *testing.T, path string) {
	t.Helper()
	_, err := o.client.KV().Delete(path, nil)
	require.NoError(t, err)
}

func (o *consulOperator) end(t *testing.T, session string) {
	t.Helper()
	_, err := o.client.Session().Destroy(session, nil)
	require.NoError(t, err)
}

func (o *consulOperator) write(t *testing.T) {
	t.Helper()
	_, err := o.client.KV().Put(&api.KVPair{Key: "something else"}, nil)
	require.NoError(t, err)
}
