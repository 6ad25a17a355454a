package testserver

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// kind is a kind of service, for tests that hold for all of them.
type kind struct {
	name  string
	start func(t *testing.T, members int, reserve reserveFunc) (*service, error)
	put   func(t *testing.T, addr, value string) // writes one fixed key
	get   func(t *testing.T, addr string) string
}

var (
	zooKeeperKind = kind{"ZooKeeper", func(t *testing.T, members int, reserve reserveFunc) (*service, error) {
		z, err := startZooKeeper(bounded(t), ZooKeeperConfig{Members: members}, reserve)
		if err != nil {
			return nil, err
		}
		return z.service, nil
	}, putZooKeeper, getZooKeeper}
	etcdKind = kind{"etcd", func(t *testing.T, members int, reserve reserveFunc) (*service, error) {
		e, err := startEtcd(bounded(t), EtcdConfig{Members: members}, reserve)
		if err != nil {
			return nil, err
		}
		return e.service, nil
	}, putEtcd, getEtcd}
	consulKind = kind{"Consul", func(t *testing.T, members int, reserve reserveFunc) (*service, error) {
		c, err := startConsul(bounded(t), ConsulConfig{Members: members}, reserve)
		if err != nil {
			return nil, err
		}
		return c.service, nil
	}, putConsul, getConsul}
	postgresKind = kind{"PostgreSQL", func(t *testing.T, members int, reserve reserveFunc) (*service, error) {
		require.Equal(t, 1, members)
		p, err := startPostgres(bounded(t), PostgresConfig{}, nil, reserve)
		if err != nil {
			return nil, err
		}
		return p.service, nil
	}, putPostgres, getPostgres}
)

// onEach runs the test on a fresh service of each kind that can have so many members.
func onEach(t *testing.T, members int, test func(t *testing.T, k kind, s *service)) {
	t.Parallel()
	kinds := []kind{zooKeeperKind, etcdKind, consulKind}
	if members == 1 {
		kinds = append(kinds, postgresKind)
	}
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s := startForTest(t, members, func(_ context.Context, members int) (*service, error) {
				return k.start(t, members, reservePorts)
			})
			test(t, k, s)
		})
	}
}

// bounded returns a context for one step of a test.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

const zooNode = "/value"

func dialZooKeeper(t *testing.T, addr string) (conn *zk.Conn) {
	conn, _, err := zk.Connect([]string{addr}, 5*time.Second, zk.WithLogInfo(false))
	require.NoError(t, err)
	return conn
}

func putZooKeeper(t *testing.T, addr, value string) {
	conn := dialZooKeeper(t, addr)
	defer conn.Close()
	_, err := conn.Set(zooNode, []byte(value), -1)
	if err == zk.ErrNoNode {
		_, err = conn.Create(zooNode, []byte(value), 0, zk.WorldACL(zk.PermAll))
	}
	require.NoError(t, err)
}

func getZooKeeper(t *testing.T, addr string) string {
	conn := dialZooKeeper(t, addr)
	defer conn.Close()
	value, _, err := conn.Get(zooNode)
	require.NoError(t, err)
	return string(value)
}

func putEtcd(t *testing.T, addr, value string) {
	_, err := monitor.call(bounded(t), http.MethodPost, addr, "/v3/kv/put", nil,
		map[string][]byte{"key": []byte("value"), "value": []byte(value)})
	require.NoError(t, err)
}

func getEtcd(t *testing.T, addr string) string {
	answer, err := monitor.call(bounded(t), http.MethodPost, addr, "/v3/kv/range", nil,
		map[string][]byte{"key": []byte("value")})
	require.NoError(t, err)
	var found struct{ KVs []struct{ Value []byte } }
	require.NoError(t, json.Unmarshal(answer, &found))
	require.Len(t, found.KVs, 1)
	return string(found.KVs[0].Value)
}

func putConsul(t *testing.T, addr, value string) {
	_, err := monitor.call(bounded(t), http.MethodPut, addr, "/v1/kv/value", nil, value)
	require.NoError(t, err)
}

func getConsul(t *testing.T, addr string) string {
	answer, err := monitor.call(bounded(t), http.MethodGet, addr, "/v1/kv/value?raw", nil, nil)
	require.NoError(t, err)
	return strings.Trim(string(answer), `"`)
}

func putPostgres(t *testing.T, addr, value string) {
	psql(t, addr, "CREATE TABLE IF NOT EXISTS kept (value text); TRUNCATE kept; INSERT INTO kept VALUES ('"+value+"')")
}

func getPostgres(t *testing.T, addr string) string { return psql(t, addr, "SELECT value FROM kept") }

// psql runs SQL by TCP.
func psql(t *testing.T, addr, sql string) string {
	out, err := runPsql(bounded(t), "postgres://"+PostgresUser+"@"+addr+"/postgres", sql)
	require.NoError(t, err)
	return out
}
