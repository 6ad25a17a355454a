package all_test

import (
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-leadership/leadership/conformance"
	"github.com/go-leadership/leadership/internal/lab/storetest"
	"github.com/go-leadership/leadership/internal/lab/testserver"
	"github.com/go-leadership/leadership/store"
	"github.com/go-zookeeper/zk"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil { // most of them wait most of the time
		panic(err)
	}
	storetest.Main(m)
}

// The servers grant: ZooKeeper, whose tick is 500 ms, sessions of 1 s to 10 s; etcd leases of 2 s and more.
var (
	sharedZooKeeper = storetest.Shared(testserver.StartZooKeeper, testserver.ZooKeeperConfig{})
	sharedEtcd      = storetest.Shared(testserver.StartEtcd, testserver.EtcdConfig{})
	sharedConsul    = storetest.Shared(testserver.StartConsul, testserver.ConsulConfig{})
)

// address returns the host and port of the server for a kind of store, and a name for those in memory.
func address(t *testing.T, kind string) string {
	t.Helper()
	switch kind {
	case "zookeeper":
		return sharedZooKeeper(t).Addrs()[0]
	case "etcd":
		return sharedEtcd(t).Addrs()[0]
	case "consul":
		return sharedConsul(t).Addrs()[0]
	}
	return "all"
}

// kinds are the schemes of the stores.
var kinds = []string{"zookeeper", "etcd", "consul", "memory"}

var elections atomic.Int64

// newElection returns the name of an election that no other test uses. It has two parts.
func newElection() string { return fmt.Sprintf("test/%d", elections.Add(1)) }

// The names under which these tests use what package storetest has for the tests of all stores.
var (
	soon           = storetest.Soon
	eventually     = storetest.Eventually
	cast           = storetest.Cast
	lost           = storetest.Lost
	requireInvalid = storetest.RequireInvalid
)

// on returns the URL of a store of a kind, with options.
func on(t *testing.T, kind, options string) string {
	t.Helper()
	return kind + "://" + address(t, kind) + "/?" + options
}

// open opens a store, through a network if there is one. The end of the test closes it.
func open(t *testing.T, raw string, through *conformance.Network) store.Store {
	t.Helper()
	u, err := store.ParseURL(raw)
	require.NoError(t, err)
	if through != nil {
		u.Dial = through.Dial
	}
	st, err := store.OpenURL(soon(t), u)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

// lead casts a ballot, waits until it is first, and acknowledges. It tries again if the session was lost on a slow
// machine.
func lead(t *testing.T, st store.Store, election, value string) (store.Ballot, store.Leader) {
	t.Helper()
	for {
		b := cast(t, st, election, value)
		err := b.Wait(soon(t))
		var leader store.Leader
		if err == nil {
			leader, err = b.Acknowledge(soon(t), value)
		}
		if !errors.Is(err, store.ErrLost) {
			require.NoError(t, err)
			return b, leader
		}
	}
}

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
