package testserver

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-leadership/leadership/internal/lab/whole"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// kind is a kind of service, for tests that hold for all of them.
type kind struct {
	name  string
	start func(ctx context.Context, members int, reserve reserveFunc) (*service, error)
	put   func(t *testing.T, addr, value string) // writes one fixed key
	get   func(t *testing.T, addr string) string

	// stolen are the ports that another process takes before the first start of a single server, before the second start,
	// and so on, by their indices. Cluster is the same for three members.
	stolen, cluster [][]int
}

var kinds = []kind{
	{
		"ZooKeeper", func(ctx context.Context, members int, reserve reserveFunc) (*service, error) {
			z, err := startZooKeeper(ctx, ZooKeeperConfig{
				Members: members, TickTime: 250 * time.Millisecond,
				Extra: map[string]string{"maxSessionTimeout": "7000", "forceSync": "no"},
			}, reserve)
			if err != nil {
				return nil, err
			}
			return z.service, nil
		}, putZooKeeper, getZooKeeper,
		[][]int{{0}},            // for clients
		[][]int{{1, 4, 7}, {5}}, // for followers, which the leading member alone takes, for elections
	},
	{
		"etcd", func(ctx context.Context, members int, reserve reserveFunc) (*service, error) {
			e, err := startEtcd(ctx, EtcdConfig{Members: members}, reserve)
			if err != nil {
				return nil, err
			}
			return e.service, nil
		}, putEtcd, getEtcd,
		[][]int{{0}, {1}, {2}}, nil, // for clients, for peers, for metrics
	},
	{
		"Consul", func(ctx context.Context, members int, reserve reserveFunc) (*service, error) {
			c, err := startConsul(ctx, ConsulConfig{Members: members}, reserve)
			if err != nil {
				return nil, err
			}
			return c.service, nil
		}, putConsul, getConsul,
		[][]int{{0}, {1}, {2}}, nil, // for clients, for servers, for gossip
	},
	{
		"PostgreSQL", func(ctx context.Context, _ int, reserve reserveFunc) (*service, error) {
			p, err := startPostgres(ctx, PostgresConfig{}, nil, reserve)
			if err != nil {
				return nil, err
			}
			return p.service, nil
		}, putPostgres, getPostgres,
		[][]int{{0}}, nil,
	},
}

// onEach runs the test on a fresh service of each kind that can have so many members. If another process takes a port
// after it was chosen, the service starts on other ports.
func onEach(t *testing.T, members int, test func(t *testing.T, k kind, s *service)) {
	t.Parallel()
	for _, k := range kinds {
		if members > 1 && k.name == "PostgreSQL" {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			stolen, attempts := k.stolen, 0
			if members > 1 {
				stolen = k.cluster
			}
			thieves := map[string]net.Listener{}
			steal := func(n int) (*ports, error) {
				p, err := reservePorts(n)
				if attempts++; err != nil || attempts > len(stolen) {
					return p, err
				}
				for _, i := range stolen[attempts-1] {
					addr := loopback(p.numbers[i])
					if thieves[addr], err = net.Listen("tcp", addr); err != nil {
						return p, err
					}
				}
				return p, nil
			}
			s := startForTest(t, members, func(ctx context.Context, members int) (*service, error) {
				return k.start(ctx, members, steal)
			})
			require.Equal(t, len(stolen)+1, attempts)
			for _, addr := range s.Addrs() {
				require.NotContains(t, thieves, addr)
			}
			for _, thief := range thieves {
				require.NoError(t, thief.Close())
			}
			test(t, k, s)
		})
	}
}

// bounded returns a context for one step of a test.
func bounded(t *testing.T) context.Context {
	whole.Need(t)
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits until the condition holds.
func eventually(t *testing.T, condition func() bool, what string) {
	t.Helper()
	require.NoError(t, poll(bounded(t), func(context.Context) (missing string, err error) {
		if !condition() {
			return what, nil
		}
		return "", nil
	}))
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
